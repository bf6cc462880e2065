"""The instructions of an x86-64 function, each decoded once, in bulk.

Most instructions are plain: control continues to the next, and the stack pointer stays. One byte
gives the kind of each, so that the others are found without examining each (`Lines.kinds`).
"""

from __future__ import annotations

import re
from itertools import islice
from operator import attrgetter

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.stack_depth import POINTERS

PLAIN, NOP, STACK, CALL, OTHER, GAP = range(6)
"""Kinds of instructions: plain ones, nops, those that may move the stack pointer or rbp, calls,
and those after which control may go elsewhere or that are invalid. A gap is where what follows
is not decoded yet."""

MARKS = re.compile(rb"[^\0]")
"""All kinds but plain ones."""

TURNS = re.compile(rb"[\3-\5]")
"""Calls, instructions that may not continue to the next, and gaps."""

AT_ONCE = 256
"""Instructions that are decoded at once, at most."""

_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_ADDRESS = attrgetter("ip")


class _Kinds(dict[iced_x86.Code_, int]):
    """The kind of the instructions that a code of the decoder stands for; `PLAIN` also of
    those that may move the stack pointer as any other register."""

    def __missing__(self, code: iced_x86.Code_) -> int:
        sample = Instruction()
        sample.code = code
        flow = sample.flow_control
        if flow in _CALLS:
            kind = CALL
        elif flow != FlowControl.NEXT or code in (iced_x86.Code.HLT, iced_x86.Code.INVALID):
            kind = OTHER
        elif sample.mnemonic == Mnemonic.NOP:
            kind = NOP
        else:
            kind = STACK if sample.is_stack_instruction else PLAIN
        self[code] = kind
        return kind


_KINDS = _Kinds()


class Lines:
    """The instructions of a function that have been decoded, and their addresses and kinds, at the
    same positions in three lists. ``taken`` marks those that were reached."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.addresses: list[int] = []
        self.kinds = bytearray()
        self.taken = bytearray()
        self._positions: dict[int, int] = {}
        self._decoders: dict[tuple[int, int], Decoder] = {}

    def decoder(self, part: Code, address: int) -> Decoder:
        """Return a decoder of ``part`` from ``address`` on."""
        key = part.address, len(part.code)  # several may begin at an address
        decoder = self._decoders.get(key)
        if decoder is None:
            decoder = self._decoders[key] = Decoder(64, part.code, ip=part.address)
        decoder.position = address - part.address
        decoder.ip = address
        return decoder

    def position(self, part: Code, address: int) -> int:
        """Return the position of the instruction at ``address``; -1 at the end of the part."""
        found = self._positions.get(address)
        return self._decode(part, address) if found is None else found

    def _decode(self, part: Code, address: int) -> int:
        found = list(islice(self.decoder(part, address), AT_ONCE))
        if not found:
            return -1
        addresses = [*map(_ADDRESS, found)]
        known = self._positions.keys() & addresses
        if known:
            count = addresses.index(min(known))
            del found[count:], addresses[count:]
        first = len(self.instructions)
        self.instructions += found
        self.addresses += addresses
        kinds = _KINDS
        self.kinds += bytes([kinds[i.code] or (i.op0_register in POINTERS) * STACK for i in found])
        self._positions.update(zip(addresses, range(first, first + len(found)), strict=True))
        # A gap follows, which has no instruction.
        self.instructions.append(found[-1])
        self.addresses.append(-1)
        self.kinds.append(GAP)
        self.taken += bytes(len(found) + 1)
        return first

    def turn(self, first: int) -> tuple[int, bool]:
        """Return the position of the next of `TURNS` from ``first`` on; of an instruction before it
        that was reached already, if there is one, and whether so."""
        match = TURNS.search(self.kinds, first)
        assert match is not None  # a gap always follows
        at = match.start()
        known = self.taken.find(1, first, at + 1)
        return (at, False) if known < 0 else (known, True)

    def take(self, first: int, after: int) -> None:
        """Mark the instructions there as reached."""
        self.taken[first:after] = b"\1" * (after - first)
