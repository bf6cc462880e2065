"""Floats are compared by their bits as the machine compares them."""

from __future__ import annotations

import math
import operator
from ctypes import c_float
from itertools import pairwise
from random import Random
from struct import pack, unpack

import pytest

from lbtrace.expressions.floats import FORMATS, BitTest, compare, converted

OPERATORS = {
    **{"==": operator.eq, "!=": operator.ne, "<": operator.lt},
    **{"<=": operator.le, ">": operator.gt, ">=": operator.ge},
}
CONTRARY = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
WORD = (1 << 64) - 1


def holds(test: BitTest, bits: int) -> bool:
    """What the kernel program finds (``condition.h``)."""
    flip = 1 << 63 if test.signed else 0
    return OPERATORS[test.operator]((bits & WORD) ^ flip, (test.bits & WORD) ^ flip)


def edges(size: int) -> list[int]:
    """Bits of zeros, infinities, what is no number, and of those next to them."""
    one, infinite = (0x3F800000, 0x7F800000) if size == 4 else (0x3FF << 52, 0x7FF << 52)
    positive = [0, 1, 2, one - 1, one, one + 1, infinite - 1, infinite, infinite + 1, 2 * one + 5]
    positive.append((1 << 8 * size - 1) - 1)
    return [*positive, *(each - (1 << 8 * size - 1) for each in positive)]


@pytest.mark.parametrize("size", [4, 8])
def test_bits_compare_as_floats(size: int) -> None:
    real, integer = FORMATS[size]
    source, all_bits = Random(size), edges(size)
    all_bits += [unpack(integer, source.randbytes(size))[0] for _ in range(150)]
    floats = [unpack(real, pack(integer, bits))[0] for bits in all_bits]
    numbers = [f for f in floats if math.isfinite(f)]
    known = sorted(numbers)
    numbers += [(one + other) / 2 for one, other in pairwise(known)]  # those between two floats
    numbers += [0.1, -0.1, 1e300, -1e300, 1e-300, -1e-300, 3.5e38, -3.5e38, 5e-324]
    for number in numbers:
        for name, compared in OPERATORS.items():
            for contrary in (False, True):
                found = compare(name, number, size, contrary=contrary)
                if found is None:
                    assert name in ("==", "!=")
                    assert size == 4
                    assert c_float(number).value != number
                    continue
                join = all if found.all else any
                for value, bits in zip(floats, all_bits, strict=True):
                    truth = compared(value, number)
                    if contrary and name in CONTRARY:
                        truth = not OPERATORS[CONTRARY[name]](value, number)
                    assert join(holds(t, bits) for t in found.tests) == truth, (name, value, number)


def test_integers_are_compared_as_in_c() -> None:
    assert converted((1 << 24) + 1, 4) == 1 << 24
    assert converted((1 << 53) + 1, 8) == 1 << 53
    assert converted(-3, 4) == -3
