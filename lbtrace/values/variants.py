"""Values that are one of several variants: Rust's enumerations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.text import clean
from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum, Members, Unreadable, json_token, lacks_of
from lbtrace.values.opaque import Opaque
from lbtrace.values.record import member_readers


class Variant(Members, Struct, frozen=True):
    """The value of an enumeration of Rust: the name of the variant, and what it carries:
    its members, and how many ``more`` there are. ``value[0]`` and ``value["key"]`` are those
    of members."""

    name: str
    fields: tuple[Argument, ...] = ()
    more: int = 0

    def text(self) -> str:
        name = clean(self.name)
        if not (self.fields or self.more):
            return name
        return f"{name}{{{self.inside()}}}" if self.are_named() else f"{name}({self.inside()})"

    def json(self) -> Any:
        if not (self.fields or self.more):
            return self.name
        inside = super().json()
        return {self.name: inside[0] if isinstance(inside, list) and len(inside) == 1 else inside}

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        path += f"/{json_token(self.name)}"
        if len(self.fields) != 1 or self.are_named():
            yield from super().lacks(path)
            return
        if self.more:
            yield path, {"more": self.more}
        yield from lacks_of(self.fields[0].value, path)

    def expression(self) -> tuple[str, Sequence[Datum], int]:
        return self.name, [field.value for field in self.fields], self.more


class Case(Struct, frozen=True):
    """A variant of an enumeration that carries values, and the discriminants by
    which it is known; none where it is what is left. What it carries lies ``offset`` bytes
    into the value."""

    name: str
    values: tuple[int, ...]
    record: Type
    offset: int = 0


class Variants(Type, Struct, frozen=True, tag="variants"):
    """An enumeration of Rust whose ``cases`` carry values. ``discriminant`` says
    which one it is; None where there is only one."""

    name: str
    size: int
    discriminant: Member | None
    cases: tuple[Case, ...]

    def bare(self) -> Variants:
        cases = (replace(case, record=Opaque("")) for case in self.cases)
        return replace(self, cases=tuple(cases))

    def is_flat(self) -> bool:
        return all(case.record.is_flat() for case in self.cases)

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        if (part := self.discriminant) is None:
            return ()
        return [(c.name, part, c.values[0]) for c in self.cases if len(c.values) == 1]

    def absent(self, reason: str) -> Datum:
        if self.size or reason or len(self.cases) != 1:
            return Unreadable(reason)
        return Variant(self.cases[0].name, ())  # it takes no room, as there is no other

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return the variant that the discriminant says it is."""
        cases = self.cases
        records = value.members[len(value.members) - len(cases) :]
        readers = [member_readers(record, probe) for record in records]
        more = [getattr(record.type, "more", 0) for record in records]
        numbers = {number: n for n, case in enumerate(cases) for number in case.values}
        other = next((n for n, case in enumerate(cases) if not case.values), -1)
        discriminant = probe.reader(value.members[0]) if self.discriminant else lambda fetched: -1

        def read(fetched: Fetched) -> Datum:
            number = discriminant(fetched)
            if not isinstance(number, int):
                return number
            chosen = numbers.get(number, other)
            if chosen < 0:
                return Unreadable(f"no variant: {number}")
            return Variant(
                cases[chosen].name,
                tuple([Argument(name, read(fetched)) for name, read in readers[chosen]]),
                more[chosen],
            )

        return read
