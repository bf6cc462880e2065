"""Maps of Go: the number of elements, and those in the first group of slots."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum, whole
from lbtrace.values.integer import Integer
from lbtrace.values.map import Entries
from lbtrace.values.opaque import Opaque
from lbtrace.values.record import Fields

WORD = 8

COUNT = Member("len", Integer("int", WORD, True), 0)
"""The number of elements, which headers begin with in all versions: ``runtime.hmap.count``,
``maps.Map.used``, ``runtime.hchan.qcount``."""

STATES = Integer("uint64", WORD, False)
"""A byte for each slot of a group, the first in the lowest."""


class GoMap(Type, Struct, frozen=True, tag="go_map"):
    """The header of a map, of which the first group is at the address at ``group``; where there is
    a number other than 0 at ``large`` (-1: nowhere), something else is there. A group begins with
    the states of its slots, those of slots in use from ``least`` to ``most``. The first slot has
    its key at ``key_at`` and its value at ``value_at``, and each other one ``key_step`` and
    ``value_step`` after the one before it."""

    name: str
    key: Type
    value: Type
    group: int
    large: int
    least: int
    most: int
    key_at: int
    key_step: int
    value_at: int
    value_step: int
    size: int = WORD

    def bare(self) -> GoMap:
        return replace(self, key=Opaque(""), value=Opaque(""))

    def is_flat(self) -> bool:
        return False

    def named_parts(self) -> tuple[Member, ...]:
        return (COUNT,)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The first member of a value is the number of elements. Those of the second one are the
        states, and what is at ``large``; then the slots, the first first."""
        head, *found = value.members[1].members if len(value.members) > 1 else (None,)
        length = probe.reader(value.members[0])
        rest = [probe.reader(part) for part in head.members] if head else []
        slots = [[*map(probe.reader, slot.members)] for slot in found]

        def read(fetched: Fetched) -> Datum:
            count = length(fetched)
            fields = [Argument(COUNT.name, count)]
            states, *large = [part(fetched) for part in rest] or [None]
            if isinstance(count, int) and isinstance(states, int) and large in ([], [0]):
                used = [
                    self.least <= states >> 8 * n & 0xFF <= self.most for n in range(len(slots))
                ]
                parts = [slot for slot, is_used in zip(slots, used, strict=True) if is_used]
                found = tuple([(key(fetched), held(fetched)) for key, held in parts])
                if found:
                    fields.append(Argument("", Entries(found, max(0, count - len(found)))))
            return whole(Fields(self.name, tuple(fields)), [count])

        return read
