"""Finds what looks like calls of given functions in arm64 code."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lbtrace.machine.code import Call
from lbtrace.machine.code_scan import find_links


def calls(code: memoryview, address: int, targets: Collection[int]) -> Iterator[Call]:
    """Yield what looks like calls (``bl``) of ``targets`` in ``code`` at ``address``."""
    for at in find_links(code, address, targets):
        field = int.from_bytes(code[at : at + 4], "little") & 0x3FFFFFF
        words = (field ^ 0x2000000) - 0x2000000  # it is signed
        yield Call(address + at, address + at + 4, address + at + 4 * words)
