"""x86-64 instructions that move the stack pointer by a register's value."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOVES = re.compile(
    rb"[\x48\x4c]\x01[\xc4\xcc\xd4\xdc\xe4\xec\xf4\xfc]|[\x48\x49]\x03[\xe0-\xe7]", re.DOTALL
)
"""``add %reg, %rsp``, in both encodings (Intel SDM, volume 2, ADD)."""


def stack_exchanges(code: memoryview, address: int) -> Iterator[int]:
    """See `lbtrace.machine.Machine.find_stack_exchanges`."""
    for found in _MOVES.finditer(code):
        yield address + found.start()
