"""Where an arm64 function is left: its ``ret`` instructions and the jumps to other functions.

Kernels refuse probes on ``retaa`` and ``retab``, which check the address first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lbtrace.arch import Code, Exit, Exits
from lbtrace.arch.arm64_words import (
    is_authenticated_ret,
    is_b,
    is_br,
    is_ret,
    is_simulated,
    jump,
    words,
)
from lbtrace.model import Site


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
            for address, word in words(part):
                simulated = is_simulated(word)
                offset = part.offset + address - part.address
                site = Site(address, offset, 0, f"{word:08x}", simulated)
                if is_ret(word):
                    found.append(Exit("return", site))
                elif is_authenticated_ret(word):
                    hidden.append(f"the kernel refuses probes on the return at {address:#x}")
                elif is_br(word):
                    hidden.append(f"the jump at {address:#x} may leave the function")
                elif (distance := jump(word)) is not None:
                    target = address + distance
                    if _holds(known, target):
                        continue
                    if (new := more(target)) is not None:
                        known.append(new)
                    elif is_b(word):
                        found.append(Exit("tail", site))
                    else:
                        hidden.append(f"the conditional jump at {address:#x} leaves the function")
        return Exits(tuple(found), tuple(hidden))


def _holds(parts: Sequence[Code], address: int) -> bool:
    return any(p.address <= address < p.address + len(p.code) for p in parts)
