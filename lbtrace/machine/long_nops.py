"""Nops with which functions begin, in whose place the kernel may put a call when a probe is on
them (x86-64 from Linux 6.18 on): quicker than a breakpoint, but not harmless everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct


class NopUse(Struct, frozen=True):
    """What becomes of a probe on such a nop. ``safe``: it harms nothing at the start of a
    function; ``quick``: it is quicker than any other, as the kernel puts a call in its place.
    ``reason`` says why, as a clause for users."""

    safe: bool
    quick: bool = False
    reason: str = ""


AskNop: TypeAlias = Callable[[bytes], NopUse]
"""Tells of an instruction how it can be used."""

UNFIT = "kernels refuse a probe on the instruction, or handle it wrongly"
"""Why there can be none, as a clause for users."""

UNASKED = NopUse(False, reason="it is not known what the kernel makes of a probe on the nop there")


def avoid_nops(raw: bytes) -> NopUse:
    """Answer for plans that are made without asking the kernel."""
    return UNASKED
