"""Jumps under probes: whether they are taken, and whether they leave the function."""

from __future__ import annotations

from msgspec import Struct

LESS, NO_CARRY = 0x1000000, 0x2000000
"""Conditions beside the processor's flags: sign and overflow differ; the carry is clear.
``LBT_FLAG_LESS`` and ``LBT_FLAG_NO_CARRY`` in bpf_src/lbtrace.h."""

INSIDE = 4
"""Ranges of `Jump.inside`, at most: ``LBT_RANGES`` there."""


ALL = (1 << 64) - 1
"""All bits of a register."""


class RegisterTest(Struct, frozen=True):
    """What a jump asks of a ``register``: it jumps if the bits ``mask`` of it, less ``minus``,
    are all 0, or with ``nonzero``, if they are not."""

    register: str
    mask: int = ALL
    minus: int = 0
    nonzero: bool = False


class Jump(Struct, frozen=True):
    """Where a jump leads whose target is computed: to what the registers ``base``
    and ``index`` (none where empty) and ``offset`` add up to, the index times
    ``scale``, or, where it ``loads``, to what memory there holds. ``inside`` are
    the addresses in the function, as distances from the jump."""

    base: str = ""
    index: str = ""
    scale: int = 1
    offset: int = 0
    loads: bool = False
    inside: tuple[tuple[int, int], ...] = ()
