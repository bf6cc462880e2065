"""Whether what a function stores first of its parameters is what it is passed for them.

LLVM writes code that nothing optimised in the order of its source: the parameters that are
numbers are stored one after the other, as they are declared. What is passed of them takes the
registers of the convention without gaps, whatever is dropped of the others. Where something is
optimised, though debug information does not say so, the store of what is assigned to a parameter
may be the first: it comes after those of other parameters, or it leaves out a register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbtrace.machine.code import CALLER_STACK, CONSTANT
from lbtrace.model import Formal
from lbtrace.plan.register_order import Source
from lbtrace.values.base import NumberType


def is_in_order(formals: Sequence[Formal], stored: Sequence[int]) -> bool:
    """Return whether ``formals`` are stored in their order, of which these are the ranks by the
    time at which each is ``stored`` (-1: it is not)."""
    pairs = zip(formals, stored, strict=True)
    ranks = [rank for formal, rank in pairs if is_number(formal) and rank >= 0]
    return ranks == sorted(ranks)


def takes_all(
    found: Sequence[Mapping[int, Source]],
    ranks: Mapping[str, tuple[str, int]],
    *,
    hidden: bool,
) -> bool:
    """Return whether what parameters are stored from, by their offsets, is without gaps: which
    register comes after which the ``ranks`` say. Before all of them a ``hidden`` one may be
    passed, as may be whatever is not stored from one that is known."""
    after = {"integer": 0, "float": 0}
    between = {"integer": int(hidden), "float": 0}
    pushed = 0
    for parts in found:
        sources = parts.values() if parts else [("", 0)]
        for name, start in sources:
            if name == CONSTANT:
                continue
            if name == CALLER_STACK:
                if start < pushed:
                    return False
                pushed = start
                continue
            if name not in ranks:
                between = {kind: count + 1 for kind, count in between.items()}
                continue
            kind, rank = ranks[name]
            again = bool(start) and rank == after[kind] - 1
            if not again and not after[kind] <= rank <= after[kind] + between[kind]:
                return False
            if not again:
                after[kind], between[kind] = rank + 1, 0
    return True


def is_number(formal: Formal) -> bool:
    """Return whether a parameter is certainly a number, or a pointer: structs are stored before
    these."""
    return isinstance(formal.type, NumberType) and not formal.reference and bool(formal.scalars)
