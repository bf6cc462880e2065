"""What kernels do with a uprobe on an x86-64 instruction: refuse, emulate or single-step it.

The rules are those of ``arch/x86/kernel/uprobes.c``: ``uprobe_init_insn`` (what is refused),
``branch_setup_xol_ops`` and ``push_setup_xol_ops`` (what is emulated). Where kernels from 5.10
to 6.18 differ, the strictest counts.
"""

from __future__ import annotations

from functools import lru_cache

from iced_x86 import Instruction, Mnemonic, OpKind

ALIKE = 4096
"""Instructions whose answers are kept: functions begin and end alike."""

LEGACY_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
REFUSED_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\xf0")
"""``is_prefix_bad``: ES, CS, SS, DS, LOCK."""

REFUSED_OPCODES = frozenset(
    b"\x06\x07\x0e\x16\x17\x1e\x1f\x27\x2f\x37\x3f\x60\x61\x62\x6c\x6d\x6e\x6f"
    b"\x82\x9a\xcc\xcd\xce\xcf\xd4\xd5\xd6\xe4\xe5\xe6\xe7\xea\xec\xed\xee\xef\xf1\xf4\xfa\xfb"
)
"""Zeros of ``good_insns_64``."""

MISTAKEN_OPCODES = (b"\x9c", b"\x0f\x05", b"\x0f\x34", b"\xc7\xf8")
"""Instructions that kernels accept, and that do something else when they are single-stepped
elsewhere: ``pushf`` stores the trap flag, so that ``popf`` raises SIGTRAP; ``syscall`` and
``sysenter``, after which a new process would continue in the copy, which it need not have
(``clone``); ``xbegin``, whose transaction a trap ends each time."""

REPEATS = frozenset(b"\xf2\xf3")
STRING_OPCODES = frozenset(b"\xa4\xa5\xa6\xa7\xaa\xab\xac\xad\xae\xaf")
"""``movs``, ``cmps``, ``stos``, ``lods`` and ``scas``. Repeated, they are stepped round by round
(Intel SDM volume 2, REP): a probe is hit, and its program run, for each element."""

LONG_NOPS = frozenset(
    bytes.fromhex(code)
    for code in (
        "0f1f00",
        "0f1f4000",
        "660f1f440000",
        "0f1f8000000000",
        "0f1f840000000000",
    )
)
"""``x86_nops`` of ``arch/x86/include/asm/nops.h``, 3 to 8 bytes: emulated from Linux 6.16 on.
That of 5 bytes is never probed (`is_long_nop`)."""


def is_long_nop(instruction: Instruction) -> bool:
    """Return whether kernels may replace the instruction by a call when a probe is placed there.

    Linux 6.18 to 7.1 do so to whatever of 5 bytes does nothing, 7.2 to one of 10 bytes
    (``can_optimize``, ``insn_is_nop``). The call writes below the stack pointer, makes a system
    call, and leads to a page that a forked process lacks (seen on 6.18), which then crashes.
    """
    if instruction.len not in (5, 10):
        return False
    if instruction.mnemonic in (Mnemonic.NOP, Mnemonic.FNOP):
        return True
    if instruction.mnemonic == Mnemonic.LEA:
        same = instruction.memory_base == instruction.op0_register
        return same and not instruction.memory_index and not instruction.memory_displacement
    if instruction.mnemonic in (Mnemonic.MOV, Mnemonic.XCHG):
        return instruction.op1_kind == OpKind.REGISTER == instruction.op0_kind
    return False


@lru_cache(ALIKE)
def is_refused(raw: bytes) -> bool:
    """Return whether kernels refuse a uprobe on the instruction ``raw``, or would get it wrong.

    Refused is what ``uprobe_init_insn`` refuses, and word-sized branches
    (``66 90`` until Linux 6.2). Taken for something else are ``xchg`` of the
    form REX 90 (for a nop), and VEX and EVEX instructions by their opcode
    byte: Linux 6.18 skips ``vpcmpeqb`` (74) as if it were a ``je``. `MISTAKEN_OPCODES`
    and `STRING_OPCODES` say what else goes wrong.
    """
    prefixes, vector, opcode = split_prefixes(raw)
    return (
        vector
        or not opcode
        or opcode.startswith(MISTAKEN_OPCODES)
        or opcode[0] in REFUSED_OPCODES
        or not REFUSED_PREFIXES.isdisjoint(prefixes)
        or (opcode[0] in STRING_OPCODES and not REPEATS.isdisjoint(prefixes))
        or (opcode[0] == 0x90 and raw not in (b"\x90", b"\xf3\x90"))
        or (_is_branch(opcode) and 0x66 in prefixes)
    )


def is_emulated_push(raw: bytes) -> bool:
    """Return whether ``raw`` is a push of a register that kernels emulate (REX only as 41)."""
    return (len(raw) == 1 or (len(raw) == 2 and raw[0] == 0x41)) and 0x50 <= raw[-1] <= 0x57


@lru_cache(ALIKE)
def is_emulated_branch(raw: bytes) -> bool:
    """Return whether ``raw`` is a one-byte nop or a relative jump or call that kernels emulate."""
    return raw == b"\x90" or (_is_branch(split_prefixes(raw)[2]) and not is_refused(raw))


def _is_branch(opcode: bytes) -> bool:
    first = opcode[0]
    return (
        first in (0xE8, 0xE9, 0xEB)
        or 0x70 <= first <= 0x7F
        or (first == 0x0F and 0x80 <= opcode[1] <= 0x8F)
    )


def split_prefixes(raw: bytes) -> tuple[bytes, bool, bytes]:
    """Return the legacy prefixes of an instruction, whether VEX or EVEX follows, and its opcode on.

    Layouts: Intel SDM volume 2, sections 2.1.1, 2.2.1, 2.3.5 and 2.7.1.
    """
    end = 0
    while end < len(raw) and raw[end] in LEGACY_PREFIXES:
        end += 1
    rest = raw[end:]
    if rest and 0x40 <= rest[0] <= 0x4F:
        return raw[:end], False, rest[1:]
    skip = {0xC5: 2, 0xC4: 3, 0x62: 4}.get(rest[0], 0) if rest else 0
    return raw[:end], skip > 0, rest[skip:]
