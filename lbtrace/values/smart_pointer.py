"""Objects of C++ that stand for a pointer: ``std::unique_ptr``, ``shared_ptr``, ``weak_ptr``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.opaque import Opaque
from lbtrace.values.pointer import NULLPTR, Address

NULL = Constant(NULLPTR)


class Shared(Address):
    """The value of a pointer that shares what it leads to with others: ``use_count`` is what that
    returns."""

    is_plain = False
    use_count: int

    def __new__(cls, address: int, use_count: int) -> Shared:
        made = super().__new__(cls, address)
        made.use_count = use_count
        return made

    def __reduce__(self) -> tuple[type[Shared], tuple[int, int]]:
        return Shared, (int(self), self.use_count)

    @property
    def is_whole(self) -> bool:
        return False

    def text(self) -> str:
        return f"{self:#x} (use {self.use_count})"

    def json(self) -> str:
        return f"{self:#x}"

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        yield path, {"use_count": self.use_count}


class SmartPointer(Type, Struct, frozen=True, tag="smart_pointer"):
    """A record with the pointer ``held``. Of one that shares, ``control`` is the offset of the
    address of the control block, which has at ``counter.offset`` the number of owners less
    ``unowned``."""

    name: str
    size: int
    held: Member
    control: int = -1
    counter: Member | None = None
    unowned: int = 0

    through = True

    def is_flat(self) -> bool:
        return self.control < 0 and self.held.type.is_flat()

    def bare(self) -> SmartPointer:
        return SmartPointer(
            self.name, self.size, Member("", Opaque(""), 0), self.control, None, self.unowned
        )

    def stands_for(self) -> Member:
        return self.held

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The members of a value are the pointer and, of one that shares, the number of owners."""
        pointer, *counts = (probe.reader(member) for member in value.members)
        unowned = self.unowned

        def read(fetched: Fetched) -> Datum:
            where = pointer(fetched)
            if not isinstance(where, Address):
                return where
            if not where:
                return NULL
            owners = counts[0](fetched) if counts else None
            return Shared(where, owners + unowned) if isinstance(owners, int) else where

        return read
