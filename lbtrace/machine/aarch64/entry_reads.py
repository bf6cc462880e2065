"""Whether an arm64 function reads registers as its caller filled them."""

from __future__ import annotations

from collections.abc import Collection

from lbtrace.machine.code import Code, Read


def reads_at_entry(_code: Code, _registers: Collection[str], _read: Read) -> bool:
    """See `lbtrace.machine.Machine.reads_at_entry`. Not known of arm64."""
    return True
