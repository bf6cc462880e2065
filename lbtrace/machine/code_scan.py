"""What is looked for in all code of a file: by native code, which takes a millisecond for some
megabytes.

Code is given as it is mapped: a copy would take as much memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from lbtrace.machine._code_scan import ffi, lib

_LAST = (1 << 64) - 1


def find_calls(code: memoryview, address: int, targets: Collection[int]) -> Iterator[int]:
    """Return where in x86-64 ``code`` at ``address`` bytes stand that look like a call of
    ``targets``."""
    return _to(lib.lbt_next_call, code, address, targets)


def find_links(code: memoryview, address: int, targets: Collection[int]) -> Iterator[int]:
    """Return where in arm64 ``code`` at ``address`` a ``bl`` to ``targets`` stands."""
    return _to(lib.lbt_next_link, code, address, targets)


def find_jumps(code: bytes, address: int, to: range) -> Iterator[int]:
    """Return where in x86-64 ``code`` at ``address`` stands what looks like a direct jump that
    leads ``to`` some addresses."""
    low, high = (min(end, _LAST) for end in (to.start, to.stop))
    return _each(lib.lbt_next_jump, code, address, low, high)


def pass_over(code: bytes, start: int, end: int) -> int:
    """Pass over the instructions of x86-64 ``code`` from ``start`` on, and return where that leads:
    to ``end``, beyond it, or before it to an instruction that is left to a full decoder."""
    return int(lib.lbt_pass_over(ffi.from_buffer(code), len(code), start, end))


def _to(search: Any, code: memoryview, address: int, targets: Collection[int]) -> Iterator[int]:
    ordered = sorted(target for target in targets if 0 <= target < 1 << 64)
    return _each(search, code, address, ffi.new("uint64_t[]", ordered), len(ordered))


def _each(search: Any, code: bytes | memoryview, *arguments: object) -> Iterator[int]:
    data, size = ffi.from_buffer(code), len(code)
    found = search(data, size, 0, *arguments)
    while found < size:
        yield found
        found = search(data, size, found + 1, *arguments)
