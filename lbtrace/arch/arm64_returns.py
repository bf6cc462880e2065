"""Where an arm64 function is left: its ``ret`` instructions and the jumps to other functions.

Instructions have four bytes, so the code is read word by word. Encodings:
Arm Architecture Reference Manual, C4.1.66 (branches) and C6.2 (each).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lbtrace.arch import Code, Exit, Exits
from lbtrace.model import Site

RETURNS = frozenset({0xD65F0BFF, 0xD65F0FFF})
"""``retaa`` and ``retab``; ``ret Xn`` is told by `_is_return`."""


class Arm64ExitFinder:
    """Finds the exits of functions."""

    def exits(
        self, parts: Sequence[Code], more: Callable[[int], Code | None], pads: Sequence[int] = ()
    ) -> Exits:
        """See `lbtrace.arch.ExitFinder.exits`."""
        known, found, hidden = list(parts), [], []
        for pad in pads:
            if not _holds(known, pad) and (new := more(pad)) is not None:
                known.append(new)
        for part in known:  # grows meanwhile
            for into in range(0, len(part.code) - 3, 4):
                address = part.address + into
                word = int.from_bytes(part.code[into : into + 4], "little")
                site = Site(address, part.offset + into, 0, f"{word:08x}")
                if _is_return(word):
                    found.append(Exit("return", site))
                elif word & 0xFFFFFC1F == 0xD61F0000:
                    hidden.append(f"the jump at {address:#x} may leave the function")
                elif (distance := _jump(word)) is not None:
                    target = address + distance
                    if _holds(known, target):
                        continue
                    if (new := more(target)) is not None:
                        known.append(new)
                    elif word & 0xFC000000 == 0x14000000:
                        found.append(Exit("tail", site))
                    else:
                        hidden.append(f"the conditional jump at {address:#x} leaves the function")
        return Exits(tuple(found), tuple(hidden))


def _holds(parts: Sequence[Code], address: int) -> bool:
    return any(p.address <= address < p.address + len(p.code) for p in parts)


def _is_return(word: int) -> bool:
    return word & 0xFFFFFC1F == 0xD65F0000 or word in RETURNS


def _jump(word: int) -> int | None:
    """How far a direct jump leads, in bytes; None for another instruction."""
    if word & 0xFC000000 == 0x14000000:  # b
        return _signed(word, 0, 26)
    if word & 0xFF000010 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # b.cond, cbz, cbnz
        return _signed(word, 5, 19)
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        return _signed(word, 5, 14)
    return None


def _signed(word: int, low: int, bits: int) -> int:
    number = word >> low & (1 << bits) - 1
    return (number - (1 << bits) if number >> bits - 1 else number) * 4
