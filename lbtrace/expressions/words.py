"""Comparisons of words of unknown type, which an ``int`` or a ``long`` may have left."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.expressions.tree import Operator
from lbtrace.model import Condition, Type
from lbtrace.values.word import HALVES

HALF, WHOLE = HALVES.start, HALVES.stop


def is_signed_word(type: Type) -> bool:
    """Return whether nothing says what a register of this ``type`` holds."""
    return not type.is_typed and type.signed and type.size == 8


def compare_either(condition: Condition) -> list[list[Condition]]:
    """Return the ``condition`` on a word such that what a negative ``int`` leaves in a register
    (`HALVES`) is that number: groups, of each of which one must hold."""
    number, operator = condition.operand, condition.operator
    if not -HALF <= number <= HALF:
        return [[condition]]

    def word(operator: Operator, number: int) -> Condition:
        return replace(condition, operator=operator, operand=number)

    negative = number < 0
    if operator in ("==", "!="):
        if not negative:
            return [[condition]]
        as_int = word(operator, number + WHOLE)
        return [[condition, as_int]] if operator == "==" else [[condition], [as_int]]
    if operator in ("<", "<="):
        below = word(operator, number + WHOLE) if negative else word("<", WHOLE)
        return [[condition, word(">=", HALF)], [condition, below]]
    above = word(operator, number + WHOLE) if negative else word(">=", WHOLE)
    return [[condition], [word("<", HALF), above]]
