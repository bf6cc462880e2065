"""Places probes in arm64 functions compiled by Go.

Encodings: Arm Architecture Reference Manual, C4.1.66 (branches).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from lbtrace.machine.code import Code, EpilogueEntry, InferredRegisters
from lbtrace.machine.interface import GoSitePlanner
from lbtrace.model import Site

CHECK_LIMIT = 16
"""Instructions within which the look at the stack ends."""

SPILL_LIMIT = 48
"""Instructions before the call of morestack."""

STACK_ARGUMENTS = 8
"""Where stack-assigned arguments begin, from the stack pointer at entry on."""

SP = 31

SCRATCH = 27
"""The register by which Go's assembler makes one instruction of several (``REGTMP``)."""

RESTART_LIMIT = 6
"""Instructions that it may make of one."""

RET = 0xD65F03C0
"""``ret`` through x30, the only one Go writes."""


class GoPlanner(GoSitePlanner):
    """Chooses places. ``morestack`` are the addresses of ``runtime.morestack*``."""

    REGISTERS_SINCE = (1, 18)
    G = "x28"
    KEEPS_G = True

    def __init__(self, morestack: Collection[int]) -> None:
        self._morestack = frozenset(morestack)

    def entry(self, code: Code, keep: Collection[str]) -> Site | None:
        """Return where a probe fires once a call; argument registers are as at entry there."""
        at = _after_restart(code, self.after_check(code))
        if any(target == at for _, target in _jumps(code)):
            return None
        return _site(code, at)

    def finds_g(self, code: Code) -> bool:
        """Never: here the goroutine has a register in both conventions."""
        return False

    def after_check(self, code: Code) -> int:
        """Return the address after the stack check, or the function's own where it has none."""
        return self._check(code)[0]

    def _check(self, code: Code) -> tuple[int, int | None]:
        """The address after the stack check, and where the block is that grows the stack."""
        following, block = code.address, None
        for address, word in _words(code, code.address, CHECK_LIMIT):
            if word & 0xFF000010 == 0x54000000:  # b.cond
                target = address + _distance(word >> 5, 19)
                if not self._grows(code, target):
                    break
                following, block = address + 4, target
            elif word & 0x7C000000 == 0x14000000 or word & 0xFE000000 == 0xD6000000:
                break
        return following, block

    def changes_g(self, code: Code) -> bool:
        """Never: assembly leaves x28 alone."""
        return False

    def finds_g_after(self, entry: EpilogueEntry) -> bool:
        """Never, for the same reason."""
        return False

    def infer_registers(self, code: Code, integers: Sequence[str]) -> InferredRegisters:
        """Infer arguments in registers from the code: where it saves them all before the stack
        grows (see `lbtrace.machine.x86_64.go_registers`). It is not read for the rest.
        """
        return InferredRegisters(self._spilled(code), 0, ())

    def kept(self, code: Code) -> frozenset[str] | None:
        """See `lbtrace.machine.GoSitePlanner.kept`."""
        spilled = self._spilled(code)
        return None if spilled is None else frozenset(spilled.values())

    def _spilled(self, code: Code) -> dict[int, str] | None:
        """The registers of arguments by their places; None where the stack does not grow."""
        _, block = self._check(code)
        if block is None:
            return None
        found: dict[int, str] = {}
        for _, word in _words(code, block, SPILL_LIMIT):
            if word & 0xFC000000 == 0x94000000:  # bl
                break
            found.update((at - STACK_ARGUMENTS, name) for at, name in _saved(word))
        return found

    def _grows(self, code: Code, target: int) -> bool:
        """Whether the block at ``target`` calls morestack."""
        for address, word in _words(code, target, SPILL_LIMIT):
            if word & 0xFC000000 == 0x94000000:  # bl
                return address + _distance(word, 26) in self._morestack
            if word & 0xFC000000 == 0x14000000 or word == RET:
                return False
        return False


def _after_restart(code: Code, at: int) -> int:
    """The address after the instructions that make up a single one of Go's assembler.

    A goroutine that is preempted among them starts again with the first
    (``PCDATA_UnsafePoint`` in Go's ``src/runtime/preempt.go``), and a probe there would
    count the call twice. They leave arguments alone; one that moves the stack pointer stays.
    """
    for address, word in _words(code, at, RESTART_LIMIT):
        immediate = word & 0x1C000000 == 0x10000000  # C4.1.92
        if immediate and word & 31 == SCRATCH:
            continue
        if address == at or SCRATCH not in (word >> 5 & 31, word >> 16 & 31) or word & 31 == SP:
            return at
        return address + 4
    return at


def _saved(word: int) -> Iterator[tuple[int, str]]:
    """The registers that an instruction saves on the stack, and how far above its pointer.

    C4.1.94: STR and STUR with an immediate offset, STP.
    """
    first, base, second = word & 31, word >> 5 & 31, word >> 10 & 31
    if base != SP:
        return
    form = "v{}!" if word & 1 << 26 else "x{}"
    if word & 0x3BC00000 == 0x39000000:  # str
        yield (word >> 10 & 0xFFF) << (word >> 30), form.format(first)
    elif word & 0x3BE00C00 == 0x38000000:  # stur
        yield _signed_field(word >> 12, 9), form.format(first)
    elif word & 0x3BC00000 == 0x29000000:  # stp
        size = 4 << (word >> 30) if word & 1 << 26 else 4 << (word >> 31)
        at = _signed_field(word >> 15, 7) * size
        yield at, form.format(first)
        yield at + size, form.format(second)


def _words(code: Code, start: int, count: int) -> Iterator[tuple[int, int]]:
    """Addresses and instructions from ``start`` on, at most ``count``."""
    into = start - code.address
    if into < 0 or into % 4:
        return
    for at in range(into, min(into + 4 * count, len(code.code) - 3), 4):
        yield code.address + at, int.from_bytes(code.code[at : at + 4], "little")


def _jumps(code: Code) -> Iterator[tuple[int, int]]:
    """The direct jumps within the function and their targets."""
    for address, word in _words(code, code.address, len(code.code) // 4):
        if word & 0xFC000000 == 0x14000000:  # b
            yield address, address + _distance(word, 26)
        elif word & 0xFF000010 == 0x54000000 or word & 0x7E000000 == 0x34000000:
            yield address, address + _distance(word >> 5, 19)  # b.cond, cbz, cbnz
        elif word & 0x7E000000 == 0x36000000:
            yield address, address + _distance(word >> 5, 14)  # tbz, tbnz


def _distance(field: int, bits: int) -> int:
    """A signed number of instructions in the low ``bits``, in bytes."""
    return 4 * _signed_field(field, bits)


def _signed_field(field: int, bits: int) -> int:
    field &= (1 << bits) - 1
    return field - (field >> bits - 1 << bits)


def _site(code: Code, address: int) -> Site:
    into = address - code.address
    word = int.from_bytes(code.code[into : into + 4], "little")
    return Site(address, code.offset + into, 0, f"{word:08x}")
