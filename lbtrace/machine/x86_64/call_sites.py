"""Finds what looks like calls of given functions, and tail calls, in x86-64 code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from iced_x86 import Decoder

from lbtrace.machine.code_scan import find_calls, find_jumps

SIZE = 5
"""Bytes of a ``call`` of a relative address: Intel SDM volume 2, CALL."""


def calls(code: memoryview, address: int, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield what looks like calls of ``targets`` in ``code`` at ``address``: where they are, and
    where they return to."""
    for at in find_calls(code, address, targets):
        yield address + at, address + at + SIZE


def jumps(
    code: memoryview,
    address: int,
    targets: Collection[int],
    start_of: Callable[[int], int | None],
) -> Iterator[tuple[int, int]]:
    """See `lbtrace.machine.interface.CallSites`."""
    for at in find_jumps(code, address, targets):
        start = start_of(address + at)
        if start is None or start < address:
            continue
        decoder = Decoder(64, bytes(code[start - address : at + SIZE + 1]), ip=start)
        while decoder.ip < address + at and decoder.can_decode:
            decoder.decode()
        if decoder.ip == address + at:
            yield start, decoder.decode().near_branch_target
