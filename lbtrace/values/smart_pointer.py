"""Objects of C++ that stand for a pointer: ``std::unique_ptr``, ``shared_ptr``, ``weak_ptr``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.opaque import Opaque
from lbtrace.values.pointer import NULLPTR, Address, Referent, with_facts

NULL = Constant(NULLPTR)


class SmartPointer(Type, Struct, frozen=True, tag="smart_pointer"):
    """A record, ``own``, with the pointer ``held``. Of one that shares, ``control`` is the offset
    of the address of the control block, which has at ``counter.offset`` the number of owners less
    ``unowned``."""

    name: str
    size: int
    held: Member
    control: int = -1
    counter: Member | None = None
    unowned: int = 0
    own: Type | None = None

    through = True
    names_zero = True

    @property
    def is_composed_alike(self) -> bool:  # type: ignore[override]
        """Whether it is: no number of owners stands for none."""
        return not self.unowned

    def is_flat(self) -> bool:
        return self.control < 0 and self.held.type.is_flat()

    def bare(self) -> SmartPointer:
        return SmartPointer(
            self.name, self.size, Member("", Opaque(""), 0), self.control, None, self.unowned
        )

    def stands_for(self) -> Member:
        return self.held

    def representation(self) -> Type | None:
        return self.own

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The members of a value are the pointer and, of one that shares, the number of owners."""
        pointer, *counts = (probe.reader(member) for member in value.members)
        unowned = self.unowned

        def read(fetched: Fetched) -> Datum:
            where = pointer(fetched)
            what = where.address if isinstance(where, Referent) else where
            if not isinstance(what, Address):
                return what
            if not what:
                return NULL
            owners = counts[0](fetched) if counts else None
            if not isinstance(owners, int):
                return where
            return with_facts(where, use_count=owners + unowned)

        return read
