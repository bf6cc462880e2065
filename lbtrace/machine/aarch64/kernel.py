"""What Linux has of arm64."""

from __future__ import annotations

from lbtrace.machine.shadow_stacks import ShadowStacks

PT_REGS = (*(f"x{n}" for n in range(31)), "sp", "pc")
"""The words of ``struct pt_regs``: arch/arm64/include/uapi/asm/ptrace.h."""

PLAIN_ARGUMENTS = tuple(f"x{n}" for n in range(6))
PLAIN_RESULTS = ("x0", "x1")
"""What an event holds where its spec is plain: ``send_plain`` in trace.bpf.c."""

BREAKPOINT = bytes.fromhex("a00020d4")
"""``UPROBE_SWBP_INSN`` in arch/arm64/include/asm/uprobes.h: ``brk #5``."""

SYSTEM_CALL = bytes.fromhex("010000d4")
"""``svc #0``."""

SHADOW_STACKS = ShadowStacks("gcs", (6, 13), (6, 18))


def begins_short(code: bytes) -> bool:
    """See `lbtrace.machine.interface.Kernel`. All instructions are as long."""
    return len(code) >= len(BREAKPOINT)
