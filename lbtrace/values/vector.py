"""Records that keep their elements elsewhere: ``std::vector``, ``Vec``, slices of Rust."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.array import Elements
from lbtrace.values.base import UNKNOWN_LENGTH, Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum, Unreadable
from lbtrace.values.map import COUNT
from lbtrace.values.opaque import Opaque
from lbtrace.values.pointer import Pointer

UNKNOWN_STEP = "elements of a type that is only declared"


class Vector(Type, Struct, frozen=True, tag="vector"):
    """A record that keeps elements elsewhere: ``pointer``, ``length`` and ``end``
    are the offsets of the address of the first, of their number, and of the
    address after the last; one of the last two is -1."""

    name: str
    size: int
    element: Type
    step: int
    pointer: int
    length: int = -1
    end: int = -1

    def bare(self) -> Vector:
        return replace(self, element=Opaque(""))

    through = True

    def is_flat(self) -> bool:
        return False

    def elements(self) -> Member | None:
        fits = self.step and self.element.size == self.step
        return Member("", Pointer(self.name, 8, self.element), self.pointer) if fits else None

    def counted(self) -> tuple[Member, Member | None, int] | None:
        if self.end < 0:
            return Member("", COUNT, self.length), None, 1
        if not self.step:
            return None
        return Member("", COUNT, self.end), Member("", COUNT, self.pointer), self.step

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        return self.composed_reader(value, probe)  # of elements whose parts cannot be fetched

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return the first elements of those that lie elsewhere, and how many follow."""
        slot, step = value.slot, self.step
        readers = [probe.reader(element) for element in value.members]

        def read(fetched: Fetched) -> Datum:
            if fetched.faults >> slot & 1:
                return FAULT
            size = fetched.words[slot] >> 32
            if size == UNKNOWN_LENGTH:
                return Unreadable("no length")
            if not step:
                return Unreadable(UNKNOWN_STEP) if size else Elements((), 0)
            count = size // step
            shown = tuple([read(fetched) for read in readers[:count]])
            return Elements(shown, count - len(shown))

        return read
