"""Which registers the events of a probe record as they are, of which user space makes its values.

What is not done at each hit costs the traced program nothing: parts of registers, signs, constants.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.model import Fetch


class Recording(Struct, frozen=True):
    """``count`` registers are recorded: the first ones of the convention, or the ``selected``. The
    fetches are made of them as ``made`` says (``struct lbt_decoded_value``: from, left, right,
    is_signed, offset); empty where they are the values as they are. Where there are ``texts``, each
    fetch has the register of its own number, and those of texts are the addresses."""

    count: int
    selected: tuple[str, ...] = ()
    made: tuple[tuple[int, int, int, bool, int], ...] = ()
    texts: bool = False

    def decoded(self) -> Any:
        """Return the ``struct lbt_decoded_registers``; None where there is nothing to do."""
        return (
            ffi.new("struct lbt_decoded_registers *", (len(self.made), self.made))
            if self.made
            else None
        )


def find_recording(
    fetches: tuple[Fetch, ...], first: tuple[str, ...], known: tuple[str, ...], *, texts: bool
) -> Recording | None:
    """Return how events record what ``fetches`` need; None where that is more than registers,
    constants and, if ``texts`` may be recorded, short ones at addresses in registers. ``first`` are
    the registers that events record without asking for each, ``known`` those that can be asked
    for."""
    if len(fetches) > lib.LBT_VALUES:
        return None
    if any(fetch.read in ("string", "bytes") for fetch in fetches):
        return _record_texts(fetches, known) if texts else None
    if not all(_is_made(fetch, known) for fetch in fetches):
        return None
    if fetches == tuple(Fetch(register=name) for name in first[: len(fetches)]):
        return Recording(len(fetches))
    needed = tuple(dict.fromkeys(f.register for f in fetches if f.base == "register"))
    if set(needed) <= set(first):
        count = max((first.index(name) + 1 for name in needed), default=0)
        if count <= lib.LBT_SHORT_VALUES or len(needed) > lib.LBT_SHORT_VALUES:
            return Recording(count, made=tuple(_make(fetch, first) for fetch in fetches))
    return Recording(len(needed), needed, tuple(_make(fetch, needed) for fetch in fetches))


def _record_texts(fetches: tuple[Fetch, ...], known: tuple[str, ...]) -> Recording | None:
    for fetch in fetches:
        if fetch.read not in ("string", "bytes"):
            if not _is_made(fetch, known):
                return None
            continue
        if not _is_as_it_is(fetch, known) or fetch.limit >= lib.LBT_SMALL_CHUNK:
            return None
        if fetch.length_from >= 0 and not _is_length(fetches[fetch.length_from], known):
            return None
    selected = tuple(f.register if f.base == "register" else known[0] for f in fetches)
    made = tuple(
        (number, *_make(fetch, selected)[1:]) if fetch.base == "register" else _make(fetch, ())
        for number, fetch in enumerate(fetches)
    )
    return Recording(len(fetches), selected, made, texts=True)


def _is_as_it_is(fetch: Fetch, known: tuple[str, ...]) -> bool:
    """Whether what is read, or is the value, is what a register holds."""
    changed = fetch.derefs or fetch.offset or fetch.plus >= 0 or fetch.operation
    return fetch.base == "register" and fetch.register in known and not changed


def _is_length(fetch: Fetch, known: tuple[str, ...]) -> bool:
    whole = fetch.read == "value" and find_shifts(fetch) == (0, 0)
    return whole and _is_as_it_is(fetch, known)


def _is_made(fetch: Fetch, known: tuple[str, ...]) -> bool:
    """Whether all that it needs is a register at most."""
    if fetch.derefs or fetch.read != "value" or fetch.plus >= 0 or fetch.operation:
        return False
    return fetch.base == "constant" or (fetch.base == "register" and fetch.register in known)


def _make(fetch: Fetch, recorded: tuple[str, ...]) -> tuple[int, int, int, bool, int]:
    is_register = fetch.base == "register"
    return (
        recorded.index(fetch.register) if is_register else lib.LBT_NO_REGISTER,
        *find_shifts(fetch),
        fetch.signed,
        fetch.offset,
    )


def find_shifts(fetch: Fetch) -> tuple[int, int]:
    """Return how far a value or an integer is shifted left, then right, for its bits."""
    bits = fetch.bit_size or 8 * (fetch.size if fetch.read == "integer" else 8)
    return 64 - bits - fetch.bit_offset, 64 - bits
