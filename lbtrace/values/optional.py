"""``std::optional``: a value, or none."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.opaque import Opaque

NONE = Constant("nullopt")

NESTED = ("nullopt", ")")
"""How a value ends that is an optional without one, within others."""


class Optional(Type, Struct, frozen=True, tag="optional"):
    """A ``value`` at the start of a record of which ``engaged`` says whether there is one."""

    name: str
    size: int
    value: Type
    engaged: Member

    through = True

    def bare(self) -> Optional:
        return replace(self, value=Opaque(""))

    def is_flat(self) -> bool:
        return self.value.is_flat()

    def named_parts(self) -> tuple[Member, ...]:
        return (self.engaged,)

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        return [(name, self.engaged, 0) for name in ("nullopt", "std::nullopt")]

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        engaged, inner = (probe.reader(member) for member in value.members)
        nested = isinstance(value.members[1].type, Optional)

        def read(fetched: Fetched) -> Datum:
            there = engaged(fetched)
            if not isinstance(there, bool):
                return there
            if not there:
                return NONE
            found = inner(fetched)
            if nested and isinstance(found, Constant) and found.endswith(NESTED):
                return Constant(f"optional({found})")
            return found

        return read
