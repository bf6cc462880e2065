"""Where probes stand in arm64 functions compiled by Go; see `lbtrace.arch.go_amd64`.

Encodings: Arm Architecture Reference Manual, C4.1.66 (branches).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from lbtrace.arch import Code, Exit, Exits
from lbtrace.arch.go_abi import OnStack, Told
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


class GoPlanner:
    """Chooses places. ``morestack`` are the addresses of ``runtime.morestack*``."""

    def __init__(self, morestack: Collection[int]) -> None:
        self._morestack = frozenset(morestack)

    def entry(self, code: Code, keep: Collection[str]) -> Site | None:
        """Where a probe fires once a call; argument registers are as at entry there."""
        at = _behind_restart(code, self.behind_check(code))
        if any(target == at for _, target in _jumps(code)):
            return None
        return _site(code, at)

    def finds_g(self, code: Code) -> bool:
        """Never: here the goroutine has a register in both conventions."""
        return False

    def behind_check(self, code: Code) -> int:
        """The address behind the look at the stack, or the function's own where it has none."""
        return self._check(code)[0]

    def _check(self, code: Code) -> tuple[int, int | None]:
        """The address behind the look at the stack, and where the block is that grows it."""
        behind, block = code.address, None
        for address, word in _words(code, code.address, CHECK_LIMIT):
            if word & 0xFF000010 == 0x54000000:  # b.cond
                target = address + _distance(word >> 5, 19)
                if not self._grows(code, target):
                    break
                behind, block = address + 4, target
            elif word & 0x7C000000 == 0x14000000 or word & 0xFE000000 == 0xD6000000:
                break
        return behind, block

    def told(self, code: Code, integers: Sequence[str]) -> Told:
        """What the code tells of arguments in registers: where it saves them all before
        the stack grows (see `lbtrace.arch.go_amd64_untold`). It is not read for the rest.
        """
        _, block = self._check(code)
        if block is None:
            return Told(None, 0, ())
        found: dict[int, str] = {}
        for _, word in _words(code, block, SPILL_LIMIT):
            if word & 0xFC000000 == 0x94000000:  # bl
                break
            found.update((at - STACK_ARGUMENTS, name) for at, name in _saved(word))
        return Told(found, 0, ())

    def on_stack(self, code: Code, words: int) -> OnStack | None:
        """Nothing is read of the code for that here."""
        return None

    def exits(self, code: Code) -> Exits:
        """Each ``ret``, and each jump to another function, in order."""
        found: list[Exit] = []
        end = code.address + len(code.code)
        for address, word in _words(code, code.address, len(code.code) // 4):
            if word == RET:
                found.append(Exit("return", _site(code, address)))
            elif word & 0xFC000000 == 0x14000000:  # b
                target = address + _distance(word, 26)
                if not code.address <= target < end:
                    found.append(Exit("tail", _site(code, address)))
        return Exits(tuple(found))

    def _grows(self, code: Code, target: int) -> bool:
        """Whether the block at ``target`` calls morestack."""
        for address, word in _words(code, target, SPILL_LIMIT):
            if word & 0xFC000000 == 0x94000000:  # bl
                return address + _distance(word, 26) in self._morestack
            if word & 0xFC000000 == 0x14000000 or word == RET:
                return False
        return False


def _behind_restart(code: Code, at: int) -> int:
    """The address behind the instructions that stand for a single one of Go's assembler.

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
