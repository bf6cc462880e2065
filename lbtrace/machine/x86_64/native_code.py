"""The code of an x86-64 function that native code follows (``lbtrace/native/flow.h``), and what
that asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Code
from lbtrace.machine.code_ranges import overlap
from lbtrace.machine.function_code import Around, Body, Extent
from lbtrace.machine.x86_64.stack_depth import POINTERS

LOOKED_AT = 200
"""Instructions that are examined before a function is taken to return."""


class UnfitError(Exception):
    """The code is not followed; the message says why, as a clause for users."""


class OverlapError(UnfitError):
    """A ``part`` overlaps others, as sizes of symbols and unwind information may be wrong."""

    def __init__(self, part: Code) -> None:
        super().__init__(TOO_MUCH)
        self.part = part


TOO_MUCH = "its code is too much to be followed"


class NativeCode(Extent):
    """Code that native code follows, and what it asks."""

    def __init__(self, parts: Sequence[Code], around: Around, native: Any) -> None:
        super().__init__((), around)
        self.around = around
        self.start = parts[0].address
        self.native = native
        self._pieces: list[Any] = []

    def never_returns(self, body: Body) -> bool:
        """Return whether no way from the beginning, and from the pads, ends in a return."""
        for part in body.parts:
            self.add(part)
        for start in (*body.pads, self.start):
            lib.lbt_flow_from(self.native, start, 0, 0, 0)
        about = ffi.new("uint64_t *")
        while (need := lib.lbt_flow_ends(self.native, LOOKED_AT, about)) >= 0:
            self.answer(need, about[0])
        return bool(need == lib.LBT_NEVER_RETURNS)

    def knows(self, address: int) -> bool:
        """See `Extent.knows`."""
        known = len(self.parts)
        found = super().knows(address)
        new, self.parts[known:] = self.parts[known:], []
        for part in new:
            self.add(part)
        return found

    def add(self, part: Code) -> None:
        """Have it read ``part`` as well."""
        if any(overlap(part, known) for known in self.parts):
            raise OverlapError(part)
        self.parts.append(part)
        piece = ffi.from_buffer("unsigned char[]", part.code)
        self._pieces.append(piece)
        if not lib.lbt_flow_add(self.native, piece, len(part.code), part.address):
            raise UnfitError(TOO_MUCH)

    def answer(self, need: int, address: int) -> None:
        """Tell native code what it has to know."""
        ends = False
        if need in (lib.LBT_NEEDS_END, lib.LBT_NEEDS_SLOT):
            ends = self.around.ends(address, pointer=need == lib.LBT_NEEDS_SLOT)
        elif need == lib.LBT_NEEDS_PART:
            part = self.around.more(address)
            if part is not None:
                self.add(part)
        elif need == lib.LBT_NEEDS_DECODER:
            return self._decode(address)
        else:
            raise UnfitError(TOO_MUCH)
        if not lib.lbt_flow_answer(self.native, need, address, ends):
            raise UnfitError(TOO_MUCH)
        return None

    def _decode(self, address: int) -> None:
        instruction = Decoder(64, self.raw_of(address, 15)[0], ip=address).decode()
        kind = lib.LBT_PLAIN
        if instruction.is_invalid:
            kind = lib.LBT_INVALID
        elif _turns(instruction):
            raise UnfitError(f"the instruction at {address:#x} is not followed")
        lib.lbt_flow_decoded(self.native, address, kind, instruction.len)


def _turns(instruction: Instruction) -> bool:
    """Whether it is one that native code has to know, but does not."""
    flow = instruction.flow_control
    if flow == FlowControl.XBEGIN_XABORT_XEND:  # of a transaction, which ends nothing else
        return instruction.mnemonic == Mnemonic.XBEGIN and (
            instruction.near_branch_target != instruction.next_ip
        )
    return (
        flow != FlowControl.NEXT
        or instruction.is_stack_instruction
        or instruction.op0_register in POINTERS
        or instruction.mnemonic in (Mnemonic.NOP, Mnemonic.HLT)
    )
