"""Jumps to other functions: ``struct lbt_jump``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lbtrace.bpf._libbpf import lib
from lbtrace.model import Site


def fill_jump(spec: Any, site: Site, registers: Sequence[str]) -> None:
    """Say in a ``struct lbt_spec`` when the jump of a site counts, and where it leads if that is
    computed."""
    spec.unless, spec.only = site.unless, site.only
    jump, slot = site.jump, spec.jump
    if jump is None:
        return
    slot.computed = True
    slot.base = registers.index(jump.base) if jump.base else lib.LBT_NO_REGISTER
    slot.index = registers.index(jump.index) if jump.index else lib.LBT_NO_REGISTER
    slot.shift = jump.scale.bit_length() - 1
    slot.loads, slot.offset = jump.loads, jump.offset
    for number, (low, high) in enumerate(jump.inside[: lib.LBT_RANGES]):
        slot.low[number], slot.high[number] = low, high
