"""Finds system calls in arm64 code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lbtrace.machine.code_scan import find_bytes

SVC = (0xD4000001).to_bytes(4, "little")
"""``svc #0``: Arm Architecture Reference Manual, C6.2."""


def system_calls(
    code: memoryview,
    address: int,
    start_of: Callable[[int], int | None],
) -> Iterator[int]:
    """See `lbtrace.machine.interface.SystemCalls`."""
    return (address + at for at in find_bytes(code, SVC) if not (address + at) % len(SVC))
