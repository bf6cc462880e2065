"""Slices of Go."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.array import Elements
from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum, whole
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import NIL
from lbtrace.values.record import Fields
from lbtrace.values.string import String

INT = Integer("int", 8, True)
"""Go's ``int`` on machines of 64 bits."""


class Slice(Type, Struct, frozen=True, tag="slice"):
    """A slice of Go: where its elements are, their number, and how many have room."""

    name: str
    element: Type
    size: int = 24

    def bare(self) -> Slice:
        return replace(self, element=self.element.bare())

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("array", self.element, 0), Member("len", INT, 8), Member("cap", INT, 16))

    def elements(self) -> Member | None:
        return self.named_parts()[0]

    def counted(self) -> tuple[Member, Member | None, int]:
        return self.named_parts()[1], None, 1

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        return [(NIL, self.named_parts()[0], 0)]

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return its length and capacity, and of the elements that were fetched those it has. Bytes
        are one text of the slice's own type."""
        own = self.name
        readers = [(member.name, probe.reader(member)) for member in value.members[:2]]
        elements = [probe.reader(member) for member in value.members[2:]]
        text = any(e.type == String(own) for e in value.members[2:])

        def read(fetched: Fetched) -> Datum:
            fields = [Argument(name, read(fetched)) for name, read in readers]
            length = fields[0].value
            if text:
                fields.append(Argument("", elements[0](fetched)))
            elif isinstance(length, int):
                shown = tuple([read(fetched) for read in elements[:length]])
                fields.append(Argument("", Elements(shown, max(0, length - len(shown)))))
            return whole(Fields(own, tuple(fields)), [f.value for f in fields])

        return read
