"""The order in which conventions assign registers to parameters."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from lbtrace.abi import locate_values
from lbtrace.abi.locations import WORD
from lbtrace.model import VOID, ConventionHints, Formal, Prototype, Scalar

Source: TypeAlias = tuple[str, int]
"""Where a value is at entry: in a register, or `CALLER_STACK` and the distance from the stack
pointer."""

MOST_REGISTERS = 12
"""At least as many as any convention has for integers, or for floats."""


@cache
def rank_registers(machine: str, hints: ConventionHints) -> dict[str, tuple[str, int]]:
    """Return the kind of each register that a convention assigns, and its place among them."""
    found: dict[str, tuple[str, int]] = {}
    for kind in ("integer", "float"):
        word = Formal("", VOID, WORD, (Scalar(0, WORD, kind),))
        made = Prototype((word,) * MOST_REGISTERS, hints=hints)
        for n, place in enumerate(locate_values(machine, made).parameters):
            for register in place.all_registers:
                found.setdefault(register, (kind, n))
    return found
