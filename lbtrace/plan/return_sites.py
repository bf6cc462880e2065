"""The probes that see a return where `ret` itself would be single-stepped.

A probe where the function's epilogue is entered (`lbtrace.machine.code.EpilogueEntry`) fetches
what one on ``ret`` would, from where it is at that point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from lbtrace.machine.code import EpilogueEntry, Exit, Origin
from lbtrace.model import Fetch, Site
from lbtrace.model.wire_limits import DEREFS

_NEVER = frozenset({"sp", "ip", "pc", "flags"})
"""Registers that are not the same at another instruction."""

_WORD = 64
_FURTHEST = 1 << 31


def return_sites(
    exit: Exit, fetches: Sequence[Fetch], start: int, entry: Site
) -> Iterator[tuple[Site, tuple[Fetch, ...]]]:
    """Yield the sites at which a return by ``exit`` is seen, and what fetches there what
    ``fetches`` do at the return.

    The function begins at ``start`` and is entered at ``entry``: what comes before that, or there,
    sees no return.
    """
    moved: list[tuple[Site, tuple[Fetch, ...]]] = []
    for early in exit.entries:
        found = _moved(early, fetches)
        late = not start <= early.site.address <= entry.address
        if found is None or not late:
            yield exit.site, tuple(fetches)
            return
        moved.append((early.site, found))
    yield from moved or [(exit.site, tuple(fetches))]


def _moved(early: EpilogueEntry, fetches: Sequence[Fetch]) -> tuple[Fetch, ...] | None:
    """What fetches the same where the epilogue is entered; None where nothing does."""
    found: list[Fetch] = []
    for fetch in fetches:
        moved: Fetch | None = fetch
        if early.stores and (fetch.derefs or fetch.read != "value"):
            return None
        if fetch.base == "register":
            if fetch.register in _NEVER:
                return None
            if fetch.register in early.origins:
                moved = _from(early.origins[fetch.register], fetch)
        if moved is None:
            return None
        found.append(moved)
    return tuple(found)


def _from(origin: Origin | None, fetch: Fetch) -> Fetch | None:
    """What fetches the same as ``fetch`` of a register that comes from ``origin``."""
    if origin is None:
        return None
    if origin.bits < _WORD:
        return _part(origin, fetch)
    if origin.on_stack:
        if len(fetch.derefs) == DEREFS or not -_FURTHEST <= fetch.offset < _FURTHEST:
            return None
        derefs = (fetch.offset, *fetch.derefs)
        return replace(fetch, base="stack", register="", offset=origin.offset, derefs=derefs)
    base = "register" if origin.register else "constant"
    offset = _wrapped(fetch.offset + origin.offset)
    return replace(fetch, base=base, register=origin.register, offset=offset)


def _part(origin: Origin, fetch: Fetch) -> Fetch | None:
    """The same where only some bits of the origin count."""
    if fetch.read != "value" or fetch.derefs or fetch.offset or fetch.plus >= 0:
        return None
    bits, signed = fetch.bit_size, fetch.signed
    if not bits:
        bits, signed = origin.bits, origin.signed
    elif fetch.bit_offset + bits > origin.bits:
        return None
    if not origin.on_stack:
        return replace(fetch, register=origin.register, bit_size=bits, signed=signed)
    size = origin.bits // 8
    part = replace(fetch, base="stack", register="", offset=origin.offset, read="integer")
    return replace(part, size=size, bit_size=bits, signed=signed)


def _wrapped(number: int) -> int:
    """The number as one of 64 bits with a sign."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
