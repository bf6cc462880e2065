"""Structs, unions, classes, tuples and complex numbers, with their bit fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import (
    Argument,
    Datum,
    Members,
    Partial,
    Unreadable,
    column_of,
    whole,
)
from lbtrace.values.notation import encodable

TUPLE = re.compile(r"__\d+")
"""Names that rustc gives to the members of tuples."""


WORD = 8
"""Bytes of a register."""


class Fields(Members, Struct, frozen=True):
    """The value of a record: ``fields``, its members, and how many ``more`` it has that are
    not shown. ``value["key"]`` is that of a member, ``dict(value)`` all by name."""

    type: str
    fields: tuple[Argument, ...]
    more: int = 0

    def text(self) -> str:
        return f"({self.inside()})" if self.type.startswith("(") else f"{{{self.inside()}}}"

    def column(self) -> Any:
        if self.more:
            raise Partial
        names = map(encodable, self.keys())
        return {name: column_of(m.value) for name, m in zip(names, self.fields, strict=True)}

    def expression(self) -> tuple[str, Sequence[Datum], int]:
        return self.type or "struct", [field.value for field in self.fields], self.more


class Record(Type, Struct, frozen=True, tag="record"):
    """A struct, union or class. ``members`` may be empty where they were not read; ``more`` counts
    those that it has beside them, or beside the members of its value."""

    name: str
    size: int
    members: tuple[Member, ...] = ()
    more: int = 0

    is_composed_alike = True

    def bare(self) -> Record:
        return replace(self, members=())

    def with_parts(self, count: int) -> Record:
        return replace(self.bare(), more=self.more + max(0, len(self.members) - count))

    def is_flat(self) -> bool:
        return all(member.type.is_flat() for member in self.members)

    def is_open_ended(self) -> bool:
        return bool(self.members) and self.members[-1].type.is_open_ended()

    def named_parts(self) -> tuple[Member, ...]:
        return self.members

    def components(self) -> tuple[Member, ...]:
        return self.members

    def may_be_text(self) -> bool:
        starts = [member.offset for member in self.members]
        return starts == [0, WORD] and not any(m.type.is_typed for m in self.members)

    def absent(self, reason: str) -> Datum:
        if not (self.size or reason):  # structs may have no parts
            return Fields(self.name, ())
        return Unreadable(reason)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        readers = member_readers(value, probe)
        name, more = self.name, self.more

        def read(fetched: Fetched) -> Datum:
            fields = tuple([Argument(name, read(fetched)) for name, read in readers])
            return whole(Fields(name, fields, more), [field.value for field in fields])

        return read


def member_readers(value: Value, probe: Probe) -> list[tuple[str, Reader]]:
    """Return what reads the members of a value, with their names."""
    return [
        ("" if TUPLE.fullmatch(member.name) else member.name, probe.reader(member))
        for member in value.members
    ]
