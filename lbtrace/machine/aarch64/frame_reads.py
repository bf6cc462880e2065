"""Whether an arm64 function reads a part of its frame."""

from __future__ import annotations

from collections.abc import Collection

from lbtrace.machine.code import Code


def reads_frame(_code: Code, _base: str, _start: int, _end: int) -> bool:
    """See `lbtrace.machine.Machine.reads_frame`. Not known of arm64."""
    return True


def reads_all(_code: bytes, _registers: Collection[str]) -> bool:
    """See `lbtrace.machine.Machine.reads_all`. Not known of arm64."""
    return True
