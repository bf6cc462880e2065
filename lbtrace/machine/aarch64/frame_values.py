"""Which registers of arm64 code hold addresses in its own stack frame, as far as can be shown.

As on x86-64, code is read from a known start, once, in the order of its addresses. Encodings: Arm
Architecture Reference Manual (DDI 0487), C4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.machine.aarch64.instructions import (
    CLOBBERED,
    SP,
    ZERO,
    ends_line,
    is_call,
    jump,
    moves_stack,
    written,
)
from lbtrace.machine.held_values import Value

FRAME = 29
SCRATCH = 19
"""x0 to x18 are caller-saved (AAPCS64 6.1.1); compilers keep the stack pointer of arrays of
variable length in the others."""

_START = (*[Value.ARGUMENT] * SCRATCH, *[Value.UNKNOWN] * (SP - SCRATCH), Value.OWN)
_UNKNOWN = (*[Value.UNKNOWN] * SP, Value.OWN)


class FrameValues:
    """What registers hold before one instruction after the other."""

    def __init__(self) -> None:
        self._values = list(_START)
        self._stored: dict[int, dict[int, Value]] = {}
        self._at_targets: dict[int, list[Value]] = {}
        self._ended = False

    def of(self, register: int) -> Value:
        """What a register holds; 31 is the stack pointer."""
        return self._values[register]

    def of_new_stack(self, word: int) -> Value:
        """What an instruction sets the stack pointer to, which does so. How far it is moved may be
        computed of it, too, and shows nothing."""
        source = word >> 5 & 31
        if word & 0x1F000000 != 0x0B000000:  # by an immediate
            return self.of(source)
        other = self._operand(word >> 16 & 31)
        if source == SP:
            return other if other == Value.UNKNOWN else Value.FOREIGN
        return min(self.of(source), other)

    def reach(self, address: int) -> None:
        """Come to an instruction, before it is asked about."""
        there = self._at_targets.pop(address, None)
        if self._ended:
            self._values = there or list(_UNKNOWN)
            self._stored.clear()
        elif there:
            self._values = [*map(max, self._values, there)]
        self._ended = False

    def step(self, word: int, address: int) -> None:
        """Go on behind an instruction."""
        distance = jump(word)
        if distance is not None and distance > 0:
            target = address + distance
            known = self._at_targets.get(target, self._values)
            self._at_targets[target] = [*map(max, self._values, known)]
        self._ended = ends_line(word)
        if is_call(word):
            for register in CLOBBERED:
                self._put(register, Value.FOREIGN)
        elif word & 0x0A000000 == 0x08000000:
            self._access(word)
        elif word & 0x0E000000 == 0x0E000000:
            if _leaves_vectors(word):
                self._put(word & 31, Value.FOREIGN)
        elif word & 0x1C000000 != 0x14000000:
            source = word >> (5 if word & 0xFFFFFC00 == 0x91000000 else 16) & 31
            alike = self._stored.get(source) if _copies(word) else None
            self._put(word & 31, self._computed(word))
            if moves_stack(word):
                self._stored.pop(SP, None)
            if alike and word & 31 != source:
                self._stored[word & 31] = alike.copy()
        elif word & 0xFFF00000 == 0xD5300000:  # mrs
            self._put(word & 31, Value.FOREIGN)

    def _put(self, register: int, value: Value) -> None:
        if register == ZERO:
            return
        self._values[register] = value
        self._stored.pop(register, None)

    def _computed(self, word: int) -> Value:
        """What an instruction computes of an immediate, or between registers: C4.1.65, C4.1.69."""
        kind, added = word & 0x1F000000, word & 0x1F200000 == 0x0B200000
        first = self._operand(word >> 5 & 31, stack=kind == 0x11000000 or added)
        second = self._operand(word >> 16 & 31)
        if kind == 0x10000000 or word & 0x1F800000 == 0x12800000:  # an address, a constant
            return Value.UNKNOWN
        if kind in (0x11000000, 0x12000000, 0x13000000):
            return first
        if kind == 0x0A000000 and word & 0x7FE003E0 == 0x2A0003E0:  # mov
            return second
        if kind in (0x0A000000, 0x0B000000):
            return Value.OWN if Value.OWN in (first, second) else Value.FOREIGN
        if word & 0x1FE00000 == 0x1A800000:  # csel and the like
            return min(first, second)
        return Value.FOREIGN

    def _operand(self, register: int, *, stack: bool = False) -> Value:
        """What a register holds, where 31 is 0 or the ``stack`` pointer."""
        return Value.UNKNOWN if register == ZERO and not stack else self._values[register]

    def _access(self, word: int) -> None:
        """Loads and stores: C4.1.94."""
        pair, base = word & 0x3A000000 == 0x28000000, word >> 5 & 31
        places, vector = _offsets(word), word >> 26 & 1
        if moves_stack(word) and not _writes_back_after(word):
            self._stored.pop(SP, None)
        if places and not vector:
            for register, offset in zip((word & 31, word >> 10 & 31), places, strict=False):
                if word >> 22 & (1 if pair else 3):
                    self._put(register, self._loaded(base, offset))
                else:
                    self._stored.setdefault(base, {})[offset] = self._operand(register)
        elif not vector and word & 0x3B000000 == 0x18000000:  # of a constant
            self._put(word & 31, Value.UNKNOWN)
        elif not vector:
            changed = {word & 31} if word & 0x3A000000 == 0x38000000 else written(word)
            for register in changed - {base}:
                self._put(register, Value.FOREIGN)
        if moves_stack(word) and _writes_back_after(word):
            self._stored.pop(SP, None)

    def _loaded(self, base: int, offset: int) -> Value:
        held = self._values[base]
        stored = self._stored.get(base, {}).get(offset)
        if stored is not None:
            return stored
        return held if held >= Value.UNKNOWN else Value.FOREIGN


def _copies(word: int) -> bool:
    """Whether it is ``mov`` between registers."""
    return word & 0xFFFFFC00 == 0x91000000 or word & 0xFFE0FFE0 == 0xAA0003E0


def _leaves_vectors(word: int) -> bool:
    """Whether an instruction writes an integer register from vectors: C4.1.95, C4.1.96."""
    converted = word & 0x5F20FC00 == 0x1E200000 and word >> 16 & 7 not in (2, 3, 7)
    return converted or word & 0xBFE0EC00 == 0x0E002C00  # umov, smov


def _writes_back_after(word: int) -> bool:
    """Whether a load or store moves its base only then (post-index)."""
    pair = word & 0x3A000000 == 0x28000000
    return word >> 23 & 3 == 1 if pair else word >> 10 & 3 == 1


def _offsets(word: int) -> tuple[int, ...] | None:
    """How far from the base register what is loaded or stored lies, for each register of 64 bits;
    None where that is not known."""
    if word & 0xFA000000 == 0xA8000000:  # ldp, stp
        offset = (word >> 15 & 127) - (word >> 21 & 1) * 128
        moves = word >> 23 & 1
        return (0, 8) if moves else (8 * offset, 8 * offset + 8)
    if word & 0xFB000000 == 0xF9000000:  # ldr, str with an unsigned offset
        return (8 * (word >> 10 & 0xFFF),)
    if word & 0xFB200000 == 0xF8000000:  # with a signed one
        offset = (word >> 12 & 511) - (word >> 20 & 1) * 512
        return (offset,) if word >> 10 & 3 == 0 else (0,)
    return None


def values_before(words: Sequence[int], start: int, end: int) -> FrameValues:
    """What registers hold before the instruction at ``end`` in a function whose ``words`` begin at
    ``start``."""
    values, address = FrameValues(), start
    for word in words[: (end - start) // 4]:
        values.reach(address)
        values.step(word, address)
        address += 4
    values.reach(end)
    return values
