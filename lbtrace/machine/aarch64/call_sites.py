"""Finds what looks like calls of given functions in arm64 code."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lbtrace.machine.code_scan import find_links


def calls(code: memoryview, address: int, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield what looks like calls (``bl``) of ``targets`` in ``code`` at ``address``: where they
    are, and where they return to."""
    for at in find_links(code, address, targets):
        yield address + at, address + at + 4
