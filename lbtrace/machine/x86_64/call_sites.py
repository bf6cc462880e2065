"""Finds what looks like calls of given functions in x86-64 code."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lbtrace.machine.code import Call
from lbtrace.machine.code_scan import find_calls

SIZE = 5
"""Bytes of a ``call`` of a relative address: Intel SDM volume 2, CALL."""


def calls(code: memoryview, address: int, targets: Collection[int]) -> Iterator[Call]:
    """Yield what looks like calls of ``targets`` in ``code`` at ``address``."""
    for at in find_calls(code, address, targets):
        after = address + at + SIZE
        distance = int.from_bytes(code[at + 1 : at + SIZE], "little", signed=True)
        yield Call(address + at, after, after + distance)
