"""Which bytes of code in memory are breakpoints, and which are changed code."""

from __future__ import annotations

import pytest

from lbtrace.targets.patched_code import _differences

THEN = bytes.fromhex("89f8 c3 53 5b 488d0437 c3 90") + b"\x90" * 4
"""mov, ret, push, pop, lea, ret, nop: the first function ends with a byte at 2."""


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ([], []),
        ([2], []),
        ([2, 3], []),  # the end of a function, and the beginning of the next
        ([2, 3, 4, 5], []),
        ([2, 3, 4, 9, 10], []),
        ([0, 1], [0]),  # mov has two bytes: no breakpoint is in it
        ([0, 1, 2], [0]),
        ([5, 6], [5]),
        ([5, 6, 7, 8], [5, 6, 7]),
    ],
)
def test_breakpoints_may_be_at_adjacent_instructions(changed, found):
    now = bytearray(THEN)
    for at in changed:
        now[at] = 0xCC
    assert [*_differences(bytes(now), THEN, 0, "x86_64", [])] == found


def test_other_bytes_are_changed_code():
    now = THEN[:2] + b"\xcc\xe9" + THEN[4:]
    assert [*_differences(now, THEN, 0, "x86_64", [])] == [2, 3]
