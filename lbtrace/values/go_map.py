"""Maps of Go, and maps and sets of Rust: the number of elements, and those in the first slots."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.array import Elements
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
    """A record with the number of elements at ``length``, of which the first group is at the
    address at ``group``; where there is a number other than 0 at ``large`` (-1: nowhere), something
    else is there. A group begins with the states of its slots, those of slots in use from ``least``
    to ``most``; where it ``fills``, it has none, and its first slots are in use. The first slot has
    its key at ``key_at`` and its value at ``value_at``, and each other one ``key_step`` and
    ``value_step`` after the one before it. Of one that ``is_set`` only the keys are shown."""

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
    length: int = 0
    fills: bool = False
    is_set: bool = False

    through = True

    def bare(self) -> GoMap:
        return replace(self, key=Opaque(""), value=Opaque(""))

    def is_flat(self) -> bool:
        return False

    def named_parts(self) -> tuple[Member, ...]:
        return (replace(COUNT, offset=self.length),)

    def counted(self) -> tuple[Member, Member | None, int]:
        return self.named_parts()[0], None, 1

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The first member of a value is the number of elements. Those of the second one are the
        states, if there are any, and what is at ``large``; then the slots, the first first."""
        head, *kept = value.members[1].members if len(value.members) > 1 else (None,)
        length = probe.reader(value.members[0])
        rest = [probe.reader(part) for part in head.members] if head else []
        slots = [[*map(probe.reader, slot.members)] for slot in kept]

        def read(fetched: Fetched) -> Datum:
            count = length(fetched)
            fields = [Argument(COUNT.name, count)]
            marks = [part(fetched) for part in rest]
            if isinstance(count, int) and (used := self._used(count, marks, len(slots))):
                found = [(slots[n][0](fetched), slots[n][1](fetched)) for n in used]
                shown: Datum = Entries(tuple(found), count - len(found))
                if self.is_set:
                    shown = Elements(tuple([key for key, _ in found]), count - len(found))
                fields.append(Argument("", shown))
            return whole(Fields(self.name, tuple(fields)), [count])

        return read

    def _used(self, count: int, marks: list[Datum], slots: int) -> list[int]:
        """Which of the first ``slots`` are in use, ``marks`` being the states, if there are any,
        and what is at ``large``: none where that cannot be said."""
        if self.fills:
            return [*range(min(count, slots))] if marks == [0] else []
        states, *large = marks or [None]
        if not isinstance(states, int) or large not in ([], [0]):
            return []
        used = [n for n in range(slots) if self.least <= states >> 8 * n & 0xFF <= self.most]
        return used if len(used) <= count else []
