"""Which instructions of an x86-64 function write to a word of its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from iced_x86 import Instruction, Mnemonic, OpKind, Register, Register_

if TYPE_CHECKING:
    from lbtrace.machine.x86_64.reached_code import ReachedCode

Cell: TypeAlias = tuple[Register_, int]
"""A word of the frame: the register that it is addressed by, and the distance from there."""

_FRAME = frozenset({Register.RSP, Register.RBP})
_READ_ONLY = frozenset({Mnemonic.CMP, Mnemonic.TEST})


class FrameStores:
    """The stores to the frame in the code that is known so far."""

    def __init__(self, code: ReachedCode) -> None:
        self._code = code
        self._stores: dict[Cell, list[Instruction]] = {}
        self._looked_at = 0

    def to(self, cell: Cell) -> list[Instruction]:
        """Return what writes to ``cell``."""
        for i in self._code.framed(self._looked_at):
            if i.op0_kind != OpKind.MEMORY or (here := cell_of(i)) is None:
                continue
            if i.op_count > 1 and i.mnemonic not in _READ_ONLY:
                self._stores.setdefault(here, []).append(i)
        self._looked_at = len(self._code.instructions)
        return self._stores.get(cell, [])


def cell_of(i: Instruction) -> Cell | None:
    """Return the word of the frame that the operand of ``i`` in memory is; None if it is none."""
    if i.memory_base not in _FRAME or i.memory_index:
        return None
    return i.memory_base, i.memory_displacement
