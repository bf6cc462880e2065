"""What clang puts at the beginning of x86-64 functions, and jumps over, to check calls by pointers.

Of ``-fsanitize=function`` before LLVM 17: a jump, two letters, and where the function's type is
described (``getUBSanFunctionSignature`` in clang's ``TargetInfo.h``).
"""

from __future__ import annotations

MARK = b"\xeb\x06v2"
"""A jump over six bytes, and the letters."""

SIZE = 8


def mark_size(code: bytes) -> int:
    """See `lbtrace.machine.Machine.find_mark_size`."""
    return SIZE if code.startswith(MARK) else 0
