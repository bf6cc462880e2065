"""Arguments whose names another one decides about, as ``level`` does about ``optname`` of
``setsockopt``: a number that has one name at a level has another one elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lbtrace.expressions.operands import Constant, Moment, Operand, Scope, number_in
from lbtrace.expressions.resolve import compute
from lbtrace.expressions.tree import Comparison, Name, Operator
from lbtrace.expressions.words import compare_either, is_signed_word
from lbtrace.model import Condition, Value

Compare = Callable[[Operator, Operand, Constant, str], tuple[Moment, Condition]]


def called_so(
    comparison: Comparison, condition: Condition, operand: Operand, scope: Scope, compare: Compare
) -> list[list[Condition]]:
    """Return the ``condition`` made of a ``comparison``, and that the operand is called as is
    written there, if another argument decides about that; of a word that has no type, what an
    ``int`` or a ``long`` would be."""
    if is_signed_word(operand.type):
        return compare_either(condition)
    sides = [each.name for each in (comparison.left, comparison.right) if isinstance(each, Name)]
    found = next((d for side in sides if (d := operand.type.decided(side))), None)
    if found is None or condition.operator not in ("==", "!="):
        return [[condition]]
    argument, numbers = found
    decider = compute(Name(operand.at, argument), scope)
    if not isinstance(decider, Operand):
        return [[condition]]
    tests = [
        compare(condition.operator, decider, Constant(operand.at, number), argument)[1]
        for number in numbers
    ]
    return [[condition], tests] if condition.operator == "==" else [[condition, t] for t in tests]


def with_decider(value: Value, operand: Operand, moment: Moment, scope: Scope) -> Value:
    """Return a ``value`` with the argument that decides about its names, if one does."""
    decider = operand.type.decider and compute(Name(operand.at, operand.type.decider), scope)
    if not isinstance(decider, Operand):
        return value
    slot = scope.take(operand.at, moment, number_in(decider))
    members = (Value("", decider.type.bare(), slot), replace(value, name=""))
    return replace(value, members=members)
