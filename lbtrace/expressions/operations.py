"""What the kernel program computes of two numbers besides their sum, as C does."""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, lshift, mul, or_, rshift, xor

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Location
from lbtrace.expressions.arithmetic import (
    as_signed_word,
    converted,
    number_of,
    promoted_type,
    slot_of,
    together,
)
from lbtrace.expressions.conversions import TYPES, Width, common, of_constant
from lbtrace.expressions.operands import Constant, Located, Moment, Operand, Pseudo, Scope
from lbtrace.expressions.tree import Binary, ExpressionError, Sign
from lbtrace.model import Fetch, Operation

_OPERATIONS: dict[Sign, tuple[Operation, Operation]] = {
    "*": ("multiply", "multiply"),
    "/": ("divide", "divide signed"),
    "%": ("remainder", "remainder signed"),
    "<<": ("shift left", "shift left"),
    ">>": ("shift right", "shift right signed"),
    "&": ("and", "and"),
    "^": ("xor", "xor"),
    "|": ("or", "or"),
}
"""Of numbers without a sign, and of those that have one."""

_PYTHON: dict[Sign, Callable[[int, int], int]] = {
    **{"*": mul, "<<": lshift, ">>": rshift, "&": and_, "^": xor, "|": or_},
}
_SHIFTS = ("<<", ">>")
_DIVISIONS = ("/", "%")


def combine(node: Binary, left: Located, right: Located, scope: Scope) -> Located:
    """Return what two numbers make. Raises `ExpressionError`."""
    for each in (left, right):
        if isinstance(each, Pseudo):
            what = f"{each.name} can be compared, not computed with"
            raise ExpressionError(each.at, what, "compare it: pid == 4711")
        if isinstance(each, Operand) and each.type.is_address:
            raise ExpressionError(each.at, f"{node.sign} takes no address", "cast it: (long)arg0")
    shared = _width(node.sign, left, right)
    if isinstance(right, Constant):
        _refuse_undefined(node.sign, right, shared)
    if isinstance(left, Constant) and isinstance(right, Constant):
        made = _of_constants(node.sign, number_of(left), number_of(right))
        return left.of(node.at, right, made)
    moment = _moment(node.at, left, right)
    if node.sign == "*" and isinstance(left, Constant):
        left, right = right, left
    factor = number_of(right) if node.sign == "*" and isinstance(right, Constant) else 0
    if -(1 << 31) <= factor < 1 << 31 and factor:
        slot = _slot(node.sign, left, shared, scope, moment)
        fetch = Fetch(base="constant", plus=slot, factor=factor)
        return Operand(node.at, TYPES[shared], Location(words=(fetch,)), moment)
    fetch = Fetch(
        base="slot",
        earlier=_slot(node.sign, left, shared, scope, moment),
        operation=_OPERATIONS[node.sign][shared.signed],
        size=shared.size,
    )
    if isinstance(right, Constant):
        number = number_of(right)
        number = shared.wrapped(number) if node.sign in _DIVISIONS else number
        fetch = replace(fetch, operand=as_signed_word(number))
    else:
        fetch = replace(fetch, plus=_slot(node.sign, right, shared, scope, moment))
    return Operand(node.at, TYPES[shared], Location(words=(fetch,)), moment)


def _moment(at: int, left: Located, right: Located) -> Moment:
    """When both are there."""
    if isinstance(left, Operand) and isinstance(right, Operand):
        return together(at, left, right)
    return next(each.moment for each in (left, right) if isinstance(each, Operand))


def _slot(sign: Sign, found: Located, shared: Width, scope: Scope, moment: Moment) -> int:
    """The slot of a number that an operation takes, in the type in which it computes: what others
    leave above the bits of that does not matter."""
    if isinstance(found, Operand):
        return slot_of(converted(found, shared, scope) if sign in _DIVISIONS else found, scope)
    assert isinstance(found, Constant)
    number = number_of(found)
    number = shared.wrapped(number) if sign in _DIVISIONS else number
    return scope.take(found.at, moment, Fetch(base="constant", offset=as_signed_word(number)))


def _width(sign: Sign, left: Located, right: Located) -> Width:
    """The type of the result; of a shift it is that of what is shifted."""
    widths = [_promoted(each) for each in (left, right)]
    return widths[0] if sign in _SHIFTS else common(*widths)


def _promoted(found: Located) -> Width:
    if isinstance(found, Operand):
        return promoted_type(found)
    assert isinstance(found, Constant)
    known = of_constant(number_of(found), found.form == "hexadecimal")
    if known is None:
        what = "this number needs more than 64 bits"
        raise ExpressionError(found.at, what, "write a smaller one")
    return known


def _refuse_undefined(sign: Sign, right: Constant, shared: Width) -> None:
    """Raise `ExpressionError` where an operation has no result."""
    number = number_of(right)
    if sign in _DIVISIONS and not number:
        raise ExpressionError(right.at, "nothing can be divided by 0", "write another number")
    if sign in _SHIFTS and not 0 <= number < 8 * shared.size:
        what = f"a number of {8 * shared.size} bits cannot be shifted by {number}"
        hint = f"shift by 0 to {8 * shared.size - 1}"
        if shared.size < WORD:
            hint += ", or cast it first: (long)n"
        raise ExpressionError(right.at, what, hint)


def _of_constants(sign: Sign, one: int, other: int) -> int:
    if sign not in _DIVISIONS:
        return _PYTHON[sign](one, other)
    quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return quotient if sign == "/" else one - quotient * other
