"""``std::unique_ptr``, ``shared_ptr`` and ``weak_ptr`` of libstdc++ (``bits/unique_ptr.h``,
``bits/shared_ptr_base.h``) and libc++ (``__memory/unique_ptr.h``, ``shared_ptr.h``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, Location, dereferenced, integer, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside, record
from lbtrace.recognize.fetcher import Fetcher, NumberFetcher, Span, pointer_in
from lbtrace.recognize.view import MemberView, View, find_named
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.integer import Integer
from lbtrace.values.smart_pointer import SmartPointer

UNIQUE = ("_M_head_impl", "__ptr_")
"""The pointer of one that does not share: of ``std::tuple`` the first element, which lies outside
of the others, or, to libc++ 18, the first value in a ``__compressed_pair``."""

SHARED = (("_M_ptr", "_M_refcount", "_M_pi"), ("__ptr_", "__cntrl_", ""))
"""The pointer, and that to the control block, which may lie in a record."""

COUNTERS = (
    (Member("", Integer("int", 4, True), 8), 0),
    (Member("", Integer("long", 8, True), 8), 1),
)
"""By library, in control blocks the number of owners: after the address of a table of virtual
functions, ``_M_use_count``, and ``__shared_owners_``, which is -1 of none."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    if view.name.startswith("unique_ptr"):
        pointer = _unique(view)
        if pointer is None or pointer[1].type.form != "pointer":
            return None
        own = record.recognize(view, inside)
        return SmartPointer(view.written, view.size, _held(pointer, inside), own=own)
    for (name, control, inner), (counter, unowned) in zip(SHARED, COUNTERS, strict=True):
        found = find_named(view, (name, control))
        if found is None or found[0][1].type.form != "pointer":
            continue
        at, block = found[1]
        if inner:
            within = find_named(block.type, (inner,))
            if within is None:
                continue
            at += within[0][0]
        held, own = _held(found[0], inside), record.recognize(view, inside)
        return SmartPointer(view.written, view.size, held, at, counter, unowned, own)
    return None


def _unique(view: View) -> tuple[int, MemberView] | None:
    found = next(filter(None, (find_named(view, (name,)) for name in UNIQUE)), None)
    if found is None or found[0][1].type.form == "pointer":
        return found[0] if found else None
    (start, pair) = found[0]
    inner = find_named(pair.type, ("__value_",))
    return (start + inner[0][0], inner[0][1]) if inner else None


def _held(found: tuple[int, MemberView], inside: Inside) -> Member:
    return Member("", inside.part(found[1].type), found[0])


class KindFetcher(NumberFetcher):
    """What is fetched: the pointer, and from the control block the number of owners."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        assert isinstance(type, SmartPointer)
        held = fetcher.in_words("", type.held.type, place.inside(type.held.offset), depth)
        word, into = place.word(max(0, type.control))
        block = None if isinstance(word, str) or into else pointer_in(word)
        return _composed(fetcher, name, type, held, block)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, SmartPointer)
        held = fetcher.in_memory("", type.held.type, moved(address, type.held.offset), depth)
        return _composed(fetcher, name, type, held, dereferenced(address, type.control))

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        assert isinstance(type, SmartPointer)
        held = fetcher.in_piece("", type.held.type, piece.inside(type.held.offset), depth)
        return _composed(fetcher, name, type, held, dereferenced(piece.start, type.control))


def _composed(
    fetcher: Fetcher, name: str, type: SmartPointer, held: Value, block: Fetch | None
) -> Value:
    """``block`` is the address of the control block."""
    if held.slot < 0:
        return Value(name, type.bare(), -1, held.reason)
    members = [held]
    if type.counter and block is not None and len(block.derefs) <= DEREFS:
        counted = integer(moved(block, type.counter.offset), type.counter.type)
        # Without a control block nothing is lost where it would be.
        slot = fetcher.slot(replace(counted, optional=True))
        members += [Value("", type.counter.type, slot)] if slot >= 0 else []
    return Value(name, type.bare(), held.slot, members=tuple(members))
