"""arm64 instructions that move the stack pointer by a register's value."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOVES = re.compile(rb"\xff\x63[\x20-\x3f]\x8b", re.DOTALL)
"""``add sp, sp, xN``: ADD (extended register) with UXTX (Arm ARM, C6.2.5)."""

SIZE = 4


def stack_exchanges(code: memoryview, address: int) -> Iterator[int]:
    """See `lbtrace.machine.Machine.find_stack_exchanges`."""
    for found in _MOVES.finditer(code):
        if (address + found.start()) % SIZE == 0:
            yield address + found.start()
