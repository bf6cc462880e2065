"""Scans of code for calls, against plain ones."""

from __future__ import annotations

import random

import pytest

from lbtrace.machine import code_scan


@pytest.mark.parametrize("seed", range(5))
def test_scans_of_code(seed):
    choose = random.Random(seed)
    often = b"\xe8\x48\x49\x4c\x89\x8b\x87\xc4\x24\x20\xe0\x60\0\0\xff\x94\x97"
    code = bytes(choose.choice(often) if choose.random() < 0.8 else choose.randrange(256)
                 for _ in range(3000))  # fmt: skip
    address, view = 0x400000, memoryview(code)
    calls = {
        at: address + at + 5 + int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
        for at in range(len(code) - 4)
        if code[at] == 0xE8
    }
    targets = {*choose.sample([t for t in calls.values() if t >= 0], 5), -1, 1 << 70}
    expected = [at for at, target in calls.items() if target in targets]
    assert [*code_scan.find_calls(view, address, targets)] == expected
    assert [*code_scan.find_calls(view, address, ())] == []

    words = {at: int.from_bytes(code[at : at + 4], "little") for at in range(0, 2997, 4)}
    links = {
        at: address + at + 4 * ((word & 0x3FFFFFF) - ((word >> 25 & 1) << 26))
        for at, word in words.items()
        if word >> 26 == 0x25
    }
    targets = {*choose.sample([t for t in links.values() if t >= 0], min(len(links), 3))}
    expected = [at for at, target in links.items() if target in targets]
    assert [*code_scan.find_links(view, address, targets)] == expected
