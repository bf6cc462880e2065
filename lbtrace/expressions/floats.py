"""Comparisons of floats with numbers, as comparisons of the integers that their bits are.

A float of IEEE 754 (binary32, binary64) is a sign and a magnitude, so positive ones are in order as
signed integers, and negative ones, upside down, as unsigned integers. Beyond the infinities are
those that are no numbers (NaN), for which no comparison but ``!=`` holds. So each takes two
comparisons of integers at most.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import NamedTuple

from lbtrace.expressions.normal_form import NOT
from lbtrace.expressions.tree import Operator

FORMATS = {4: ("<f", "<i"), 8: ("<d", "<q")}
"""By size: how a float is packed, and the integer of its bits."""


REVERSED: dict[Operator, Operator] = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


class BitTest(NamedTuple):
    """A comparison of the bits, taken for an integer with a sign or without, with those of a
    number."""

    operator: Operator
    bits: int
    signed: bool


class Tests(NamedTuple):
    """Comparisons of bits of which ``all`` must hold, or any."""

    tests: tuple[BitTest, ...]
    all: bool = True


def compare(operator: Operator, number: float, size: int, *, contrary: bool) -> Tests | None:
    """Return what holds of the bits of a float of ``size`` bytes that compares so with ``number``;
    None where that is one that no such float can be equal to. ``contrary``: it is that the
    contrary does not hold, as it never does of what is no number."""
    if operator in ("==", "!="):
        bits = _bits(number, size)
        return None if _number(bits, size) != number else Tests(_equal(operator, bits, size))
    if contrary:
        opposite = compare(NOT[operator], number, size, contrary=False)
        assert opposite is not None
        tests = (test._replace(operator=NOT[test.operator]) for test in opposite.tests)
        return Tests(tuple(tests), all=False)
    bits = _bits(number, size)
    nearest = _number(bits, size)
    if nearest != number:  # what is beyond a number between two floats is from the next one on
        above = operator in (">", ">=")
        operator = ">=" if above else "<="
        if (nearest < number) == above:
            bits = _next(bits, size, 1 if above else -1)
    return Tests(_order(operator, bits, size))


def converted(number: int, size: int) -> float:
    """Return the float of ``size`` bytes that an integer is compared as in C."""
    return _number(_bits(float(number), size), size)


def _equal(operator: Operator, bits: int, size: int) -> tuple[BitTest, ...]:
    least = _least(size)
    if bits not in (0, least):
        return (BitTest(operator, bits, signed=True),)
    if operator == "!=":
        return (BitTest("!=", 0, signed=True), BitTest("!=", least, signed=True))
    return (BitTest("<=", 0, signed=True), BitTest("<=", least, signed=False))


def _order(operator: Operator, bits: int, size: int) -> tuple[BitTest, ...]:
    """The comparison with the float of ``bits``, and that no NaN is meant."""
    least = _least(size)
    greater = operator in (">", ">=")
    bound = _bits(float("inf") if greater else float("-inf"), size)
    no_nan = BitTest("<=", bound, signed=greater)
    if bits in (0, least):  # both are zero
        if operator in (">", "<="):
            return BitTest(operator, 0, signed=True), no_nan
        return BitTest(REVERSED[operator], least, signed=False), no_nan
    if bits > 0:
        return BitTest(operator, bits, signed=True), no_nan
    return BitTest(REVERSED[operator], bits, signed=False), no_nan


def _least(size: int) -> int:
    """The bits of the negative zero, as a signed integer."""
    return -(1 << 8 * size - 1)


def _bits(number: float, size: int) -> int:
    """The bits of the float that is nearest to ``number``, as a signed integer."""
    real, integer = FORMATS[size]
    try:
        packed = pack(real, number)
    except OverflowError:
        packed = pack(real, float("inf") if number > 0 else float("-inf"))
    found: int = unpack(integer, packed)[0]
    return found


def _number(bits: int, size: int) -> float:
    real, integer = FORMATS[size]
    found: float = unpack(real, pack(integer, bits))[0]
    return found


def _next(bits: int, size: int, step: int) -> int:
    """The bits of the next greater or smaller float."""
    least = _least(size)
    place = (bits if bits >= 0 else least - bits) + step
    return place if place >= 0 else least - place
