"""Functions that have code of their own and were inlined as well, so that some of what they do is
no call."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

from lbtrace.dwarf.attributes import origins, text
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.entries import Entry, Unit

FEW = 8
"""Functions for which copies are looked for: who names more does not look for one."""

MOST_BYTES = 1 << 19
"""The size of a unit that is searched for copies, which takes some hundredths of a second."""


def find(unit: Unit, addresses: Container[int]) -> dict[int, tuple[str, ...]]:
    """Return in which functions of the unit those at ``addresses`` were inlined, by address: a name
    for each copy."""
    if len(unit.raw) > MOST_BYTES:
        return {}
    wanted: dict[int, int] = {}
    for die in unit.functions(None):
        if (address := lists.entry_address(die)) in addresses and address is not None:
            for origin in origins(die)[1:]:
                if origin.has("DW_AT_inline"):
                    wanted[origin.offset] = address
    if not wanted:
        return {}
    copies: dict[int, set[int]] = {}
    for entry in unit.tagged("DW_TAG_inlined_subroutine"):
        chosen = next((wanted[o.offset] for o in origins(entry)[1:] if o.offset in wanted), None)
        if chosen is not None and (start := start_of(entry)) is not None:
            copies.setdefault(chosen, set()).add(start)
    if not copies:
        return {}
    bodies: list[tuple[int, int, str]] = []
    for die in unit.functions(None):
        with suppress(Exception):  # this one is damaged
            bodies += [(low, high, _name(die)) for low, high in lists.ranges(die)]
    found = {}
    for address, starts in copies.items():
        others = [(low, high, name) for low, high, name in bodies if not low <= address < high]
        within = [name for at in sorted(starts) for low, high, name in others if low <= at < high]
        if within:
            found[address] = tuple(within)
    return found


def _name(die: Any) -> str:
    return next(filter(None, (text(each, "DW_AT_name") for each in origins(die))), "")


def start_of(entry: Entry) -> int | None:
    """The address of the first instruction of an inlined copy."""
    try:
        ranges: Iterator[tuple[int, int]] = lists.ranges(entry)
        known = [(low, high) for low, high in ranges if low < high]
        if not known:
            return None
        if entry.has("DW_AT_entry_pc"):
            value, form = entry.get("DW_AT_entry_pc")
            # A constant counts from where the first range begins.
            at = (
                value
                if form.startswith(("DW_FORM_addr", "DW_FORM_GNU_addr"))
                else ((lists.low(entry) or known[0][0]) + value)
            )
            if any(low <= at < high for low, high in known):
                return int(at)
    except Exception:  # damaged DWARF raises nearly anything
        return None
    return known[0][0]
