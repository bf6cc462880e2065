"""Finds what looks like calls of given functions in x86-64 code."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lbtrace.machine.code_scan import find_calls

SIZE = 5
"""Bytes of a ``call`` of a relative address: Intel SDM volume 2, CALL."""


def calls(code: memoryview, address: int, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield what looks like calls of ``targets`` in ``code`` at ``address``: where they are, and
    where they return to."""
    for at in find_calls(code, address, targets):
        yield address + at, address + at + SIZE
