"""The order in which conventions assign registers to parameters."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from lbtrace.abi import locate_values
from lbtrace.abi.locations import WORD, Location
from lbtrace.machine.code import CALLER_STACK
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
            first = find_first(place)
            if first is not None and first[0] != CALLER_STACK:
                found.setdefault(first[0], (kind, n))
    return found


def find_first(place: Location) -> Source | None:
    """Return where a value, or the pointer to it, begins whose ``place`` is this."""
    memory = place.memory
    if memory is not None:
        if memory.base == "stack":
            return None if memory.derefs else (CALLER_STACK, memory.offset)
        return memory.register, 0
    word, _ = place.word()
    if isinstance(word, str):
        return (word.split()[-1], 0) if word else None
    return (CALLER_STACK, word.offset) if word.base == "stack" else (word.register, 0)
