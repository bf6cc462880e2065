"""Tests in conjunctive normal form, which is how the kernel asks them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from lbtrace.expressions.tree import (
    Comparison,
    ExpressionError,
    Junction,
    Negation,
    Operator,
    Test,
)
from lbtrace.model.wire_limits import CONDITIONS

NOT: dict[Operator, Operator] = {
    **{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"},
    **{"startswith": "lacks", "lacks": "startswith"},
}

_Condition = TypeVar("_Condition")


def find_groups(test: Test) -> list[list[Comparison]]:
    """Groups of alternatives, all of which must hold.

    Raises `ExpressionError` where they are more than the kernel takes.
    """
    return _groups(_pushed(test, negated=False))


def find_comparisons(test: Test) -> list[Comparison]:
    """Return the comparisons of a test, in order."""
    match test:
        case Negation():
            return find_comparisons(test.inner)
        case Junction():
            return [c for part in test.parts for c in find_comparisons(part)]
        case Comparison():
            return [test]


def _pushed(test: Test, *, negated: bool) -> Comparison | Junction:
    """``test`` with its negations pushed into the comparisons."""
    match test:
        case Negation():
            return _pushed(test.inner, negated=not negated)
        case Junction():
            kind = test.kind if not negated else "or" if test.kind == "and" else "and"
            return Junction(kind, tuple(_pushed(p, negated=negated) for p in test.parts))
        case Comparison():
            if not negated:
                return test
            return replace(test, operator=NOT[test.operator], contrary=not test.contrary)


def _groups(test: Test) -> list[list[Comparison]]:
    if isinstance(test, Comparison):
        return [[test]]
    assert isinstance(test, Junction)
    parts = [_groups(part) for part in test.parts]
    if test.kind == "and":
        return [group for part in parts for group in part]
    return join(parts)


def join(parts: Iterable[list[list[_Condition]]]) -> list[list[_Condition]]:
    """Return groups of alternatives that hold where those of one of the ``parts`` do. Raises
    `ExpressionError` where they are more than the kernel takes."""
    joined: list[list[_Condition]] = [[]]
    for part in parts:
        joined = [one + other for one in joined for other in part]
        if len(joined) > CONDITIONS:
            raise ExpressionError(0, "this takes too many comparisons", "write it shorter")
    return joined
