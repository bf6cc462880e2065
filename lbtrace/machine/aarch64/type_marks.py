"""What compilers put at the beginning of functions besides code."""

from __future__ import annotations


def mark_size(_code: bytes) -> int:
    """See `lbtrace.machine.Machine.find_mark_size`. Nothing is known of arm64."""
    return 0
