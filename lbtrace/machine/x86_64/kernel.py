"""What Linux has of x86-64."""

from __future__ import annotations

from lbtrace.machine.shadow_stacks import ShadowStacks

PT_REGS = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8"),
    *("ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp"),
)
"""The words of ``struct pt_regs``: arch/x86/include/asm/ptrace.h."""

PLAIN_ARGUMENTS = ("di", "si", "dx", "cx", "r8", "r9")
PLAIN_RESULTS = ("ax", "dx")
"""What an event holds where its spec is plain: ``send_plain`` in trace.bpf.c."""

BREAKPOINT = b"\xcc"
"""``UPROBE_SWBP_INSN`` in arch/x86/include/asm/uprobes.h: int3."""

SYSTEM_CALL = b"\x0f\x05"
"""``syscall``."""

SHADOW_STACKS = ShadowStacks("user_shstk", (6, 6), (6, 11))
"""Uretprobes know of them since ``shstk_update_last_frame``."""


def begins_short(code: bytes) -> bool:
    """See `lbtrace.machine.interface.Kernel`."""
    from iced_x86 import Decoder  # imported here because few breakpoints are asked about

    instruction = Decoder(64, code).decode()
    return not instruction.is_invalid and instruction.len == len(BREAKPOINT)
