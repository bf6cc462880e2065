"""Locations at a view of an address.

gcc numbers the states of the source's program that no instruction separates: the views of an
address. Memory and registers are the same in all of them, so a location for any of them can be
read there, also one for no address but only from one view of it to another. Source: gcc's
documentation of ``-gvariable-location-views`` and "Location View Numbering" (Oliva), and what its
``dwarf2out.cc`` writes: before a list of locations, two LEB128 numbers for each of it.
"""

from __future__ import annotations

from msgspec import Struct

from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.entries import Entry
from lbtrace.dwarf.reader.forms import uleb

PAIR = 20
"""Bytes that two numbers may take."""


def expression(entry: Entry, address: int, view: int) -> bytes:
    """Return the location of ``entry`` at a ``view`` of ``address``, where its list has views; else
    that at the address."""
    return _at_view(entry, address, view).location or lists.expression(entry, address)


def expression_at_entry(entry: Entry, address: int) -> bytes:
    """Return the location of a parameter where its function begins at ``address``, before anything
    else is assigned to it: without views gcc has that for no address, but lists it first."""
    if not entry.has("DW_AT_GNU_locviews"):
        if entry.get("DW_AT_location").form in lists.EXPRESSIONS:
            return lists.expression(entry, address)
        fitting = (each for each in lists.locations(entry) if _begins_by(each, address))
        return next(fitting, lists.NOWHERE).expression
    found = _at_view(entry, address, 0)
    return b"" if found.is_later else found.location


def expression_of_line(entry: Entry, address: int, view: int) -> bytes | None:
    """Return the location of ``entry`` at ``address``, which is that of its last view and what
    debuggers show; None where it has another one at the ``view`` at which a line begins, or none
    any more."""
    found = lists.expression(entry, address)
    here = _at_view(entry, address, view)
    changes = bool(found) if here.is_former else here.location not in (b"", found)
    return None if changes else found


def _begins_by(each: lists.Located, address: int) -> bool:
    """Whether a location is for ``address``, or for the state before the instruction there."""
    return each.low <= address < each.high or each.low == each.high == address


class _AtView(Struct, frozen=True):
    """The ``location`` at a view; where that has none, the next one at the same address. Empty
    where neither is there, or the list has no views. ``is_former``: only before it had one.
    ``is_later``: it is the next one."""

    location: bytes = b""
    is_former: bool = False
    is_later: bool = False


def _at_view(entry: Entry, address: int, view: int) -> _AtView:
    if view < 0 or not entry.has("DW_AT_GNU_locviews"):
        return _AtView()
    name = ".debug_loclists" if entry.unit.version >= 5 else ".debug_loc"
    section, at = entry.unit.file.section(name), int(entry.get("DW_AT_GNU_locviews").value)
    later: list[tuple[int, bytes]] = []
    former = False
    for low, high, found in lists.locations(entry):
        raw = section.cut(at, at + PAIR)
        begin, after = uleb(raw, 0)
        end, after = uleb(raw, after)
        at += after
        if (low, begin) <= (address, view) < (high, end):
            return _AtView(found)
        former |= (high, end) <= (address, view)
        if low == address and begin > view:
            later.append((begin, found))
    return _AtView(min(later)[1] if later else b"", former, bool(later))


def entry_view(entry: Entry) -> int:
    """Return the view at which an inlined function begins; -1 where none is given."""
    name = "DW_AT_GNU_entry_view"
    return int(entry.get(name).value) if entry.has(name) else -1
