"""Comparisons of values that are times, such as ``std::chrono::milliseconds``, with times."""

from __future__ import annotations

from typing import TypeAlias

from lbtrace.expressions.operands import Constant
from lbtrace.expressions.tree import ExpressionError, Operator
from lbtrace.values.base import TimeParts

SECOND = 10**9

Tests: TypeAlias = list[list[tuple[int, Operator, int]]]
"""What is tested of the parts, by their numbers: one test of each group must hold."""

WITHOUT_REST: dict[Operator, Operator] = {">": ">", ">=": ">", "<": "<=", "<=": "<="}
"""What is true of whole ticks where a time is between two of them, of the lower one."""

LOOSE: dict[Operator, Operator] = {">": ">=", ">=": ">=", "<": "<=", "<=": "<="}


def compare(operator: Operator, parts: TimeParts, constant: Constant) -> Tests:
    """Return how a time of these ``parts`` is compared with a ``constant``. Raises
    `ExpressionError`."""
    assert isinstance(constant.value, int)
    if len(parts) > 1:  # the second ones count less than one of the first
        seconds, rest = divmod(constant.value, SECOND)
        if operator in ("==", "!="):
            both: Tests = [[(0, operator, seconds)], [(1, operator, rest)]]
            return both if operator == "==" else [both[0] + both[1]]
        if not rest and operator in ("<", ">="):
            return [[(0, operator, seconds)]]
        within: Tests = [[(0, LOOSE[operator], seconds)], [(1, operator, rest)]]
        if operator in (">", ">="):
            return [*within[: seconds != 0], [(0, ">", seconds), *within[1]]]
        return [within[0], [(0, "<", seconds), *within[1]] if seconds else within[1]]
    ((_, numerator, denominator),) = parts
    ticks, rest = divmod(constant.value * denominator, numerator * SECOND)
    if not rest:
        return [[(0, operator, ticks)]]
    if operator not in WITHOUT_REST:
        what = "with this time it holds for every call, or for none"
        raise ExpressionError(constant.at, what, "the value counts longer spans: write > or <")
    return [[(0, WITHOUT_REST[operator], ticks)]]


def in_ticks(parts: TimeParts, nanoseconds: int) -> float:
    """Return a time in what a number with fractions counts."""
    ((_, numerator, denominator),) = parts
    return nanoseconds * denominator / (numerator * SECOND)
