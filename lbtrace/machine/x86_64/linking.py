"""What linkers and the dynamic loader do on x86-64.

Sources: System V psABI, sections 4.4 (relocations) and 5.2 (procedure linkage table); glibc's
``sysdeps/generic/ldconfig.h`` for the loader's cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

RELATIVE = 8
"""R_X86_64_RELATIVE: the load address plus the addend."""

INDIRECT = 37
"""R_X86_64_IRELATIVE: what the function there returns."""

SLOTS = (6, 7)
"""R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT."""

THREAD_OFFSET = 18
"""R_X86_64_TPOFF64: how far a variable is from the thread pointer."""

CACHE_FLAGS = 0x0303
"""FLAG_ELF_LIBC6, FLAG_X8664_LIB64."""

JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)", re.DOTALL)
"""``endbr64``, ``bnd`` where there is one, ``jmp *slot(%rip)``."""

THROUGH_SLOT = re.compile(rb"\xff[\x15\x25](....)", re.DOTALL)
"""``call *slot(%rip)``, ``jmp *slot(%rip)``."""

THREAD_PLACE = re.compile(
    rb"(?:\xf3\x0f\x1e\xfa)?\x64\x48\x8b\x04\x25\0{4}"
    rb"\x48(?:(?:\x83\xc0|\x8d\x40)(.)|(?:\x05|\x8d\x80)(....)|\x83\xe8(.)|\x2d(....))\xc3",
    re.DOTALL,
)
"""``endbr64`` where there is one, ``mov %fs:0, %rax``, ``add``, ``lea`` or ``sub``, ``ret``."""


def thread_place(code: bytes) -> int | None:
    """See `lbtrace.machine.interface.Linking`."""
    match = THREAD_PLACE.match(code)
    if match is None:
        return None
    added, taken = match[1] or match[2] or b"", match[3] or match[4] or b""
    number = int.from_bytes(added or taken, "little", signed=True)
    return number if added else -number


def stubs(code: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the PLT stubs in a section at ``start``, and the slots through which they jump."""
    for match in JUMP.finditer(code):
        end = start + match.end()
        yield start + match.start(), end + int.from_bytes(match[1], "little", signed=True)


def slot_calls(code: bytes, start: int) -> Iterator[int]:
    """See `lbtrace.machine.interface.Linking`."""
    for match in THROUGH_SLOT.finditer(code):
        yield start + match.end() + int.from_bytes(match[1], "little", signed=True)


def thread_block(size: int, alignment: int) -> int:
    """See `lbtrace.machine.interface.Linking`. It ends at the thread pointer (ELF Handling For
    Thread-Local Storage, variant II)."""
    return -(-(-size // alignment) * alignment)
