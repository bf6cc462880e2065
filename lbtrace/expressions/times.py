"""Comparisons of values that are times, such as ``std::chrono::milliseconds``, with times and with
each other."""

from __future__ import annotations

from typing import TypeAlias

from lbtrace.expressions.operands import Constant, Operand, Scope
from lbtrace.expressions.operations import combine
from lbtrace.expressions.own_values import part_of
from lbtrace.expressions.tree import SWAPPED, Binary, ExpressionError, Number, Operator, Sign
from lbtrace.values.base import TimeParts

SECOND = 10**9

Tests: TypeAlias = list[list[tuple[int, Operator, int]]]
"""What is tested of the parts, by their numbers: one test of each group must hold."""

Relation: TypeAlias = tuple[Operator, Operand, Operand | Constant]
"""What is tested of two values."""

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


def relate(
    at: int, operator: Operator, one: Operand, other: Operand, scope: Scope
) -> list[list[Relation]]:
    """Return what is tested of two times, of which no product overflows: one test of each group
    must hold. Raises `ExpressionError`."""
    pairs: list[tuple[Operand, Operand | Constant]]
    first, second = _parts(one), _parts(other)
    if len(first) == len(second) == 2:
        pairs = [(a, b) for (a, _), (b, _) in zip(first, second, strict=True)]
    elif len(first) != len(second):
        raise _incomparable(at, one, other)
    else:
        (fine, unit), (coarse, other_unit) = first[0], second[0]
        if unit[0] * other_unit[1] > other_unit[0] * unit[1]:
            fine, unit, coarse, other_unit = coarse, other_unit, fine, unit
            operator = SWAPPED.get(operator, operator)
        many, rest = divmod(other_unit[0] * unit[1], unit[0] * other_unit[1])
        if rest or fine.type.is_real or coarse.type.is_real:
            raise _incomparable(at, one, other)
        if many == 1:
            return [[(operator, fine, coarse)]]
        if not (fine.type.signed and coarse.type.signed):
            raise _incomparable(at, one, other)
        whole, left = (_divided(at, fine, sign, many, scope) for sign in ("/", "%"))
        pairs = [(whole, coarse), (left, Constant(at, 0))]
    if operator in ("==", "!="):
        both: list[Relation] = [(operator, *pair) for pair in pairs]
        return [both] if operator == "!=" else [[each] for each in both]
    strict: Operator = ">" if ">" in operator else "<"
    return [[(LOOSE[operator], *pairs[0])], [(strict, *pairs[0]), (operator, *pairs[1])]]


def _parts(operand: Operand) -> list[tuple[Operand, tuple[int, int]]]:
    """The numbers of a time, and of which fraction of a second each is."""
    return [
        (part_of(operand.at, operand, member), (numerator, denominator))
        for member, numerator, denominator in operand.type.time_parts()
    ]


def _divided(at: int, number: Operand, sign: Sign, by: int, scope: Scope) -> Operand:
    node = Binary(at, sign, Number(at, 0), Number(at, by))
    made = combine(node, number, Constant(at, by), scope)
    assert isinstance(made, Operand)
    return made


def _incomparable(at: int, one: Operand, other: Operand) -> ExpressionError:
    what = f"{one.type.name} and {other.type.name} are not compared with each other"
    return ExpressionError(at, what, "compare each with a time: d > 5ms")
