"""Native reading of x86-64 instructions against iced-x86."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from iced_x86 import Decoder

from lbtrace.elf.image import Image
from lbtrace.machine.code_scan import pass_over

PREFIXES = ("", "", "", "66", "f2", "f3", "67", "f0", "2e", "3e", "64", "66662e", "f066", "6666")


def instructions(seed: int, count: int) -> Iterator[bytes]:
    """Bytes that begin as instructions do, some of them cut short."""
    choose = random.Random(seed)
    for _ in range(count):
        raw = bytes.fromhex(choose.choice(PREFIXES))
        raw += bytes([0x40 + choose.randrange(16)]) * choose.randrange(2)
        raw += b"\x0f" * choose.randrange(2) + choose.randbytes(16)
        yield raw[: choose.choice([3, 5, 16, 16, 16])]


@pytest.mark.parametrize("seed", [1, int(os.environ["LBTRACE_SEED"])])
def test_instructions_end_where_a_full_decoder_says(seed: int) -> None:
    """Or are left to it: 0."""
    read = 0
    for raw in instructions(seed, 30_000):
        length = pass_over(raw, 0, 1)
        decoded = next(iter(Decoder(64, raw)))
        assert length in (0, decoded.len), raw.hex()
        assert not (length and decoded.is_invalid), raw.hex()
        read += length > 0
    assert read > 10_000


def test_code_is_passed_over_from_instruction_to_instruction() -> None:
    image = Image.open("/usr/bin/python3.11")
    text = next(section for section in image.sections if section.name == ".text")
    code = bytes(image.code(text.address, min(text.size, 200_000)))
    starts = {instruction.ip for instruction in Decoder(64, code)}
    at = 0
    for end in range(1000, len(code), 1000):
        while (found := pass_over(code, at, end)) < end:
            assert found in starts
            at = found + next(iter(Decoder(64, code[found : found + 15]))).len
        at = found
        assert at in starts
        assert at - end < 15
