"""Sums that the kernel program can compute."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Location, moved
from lbtrace.expressions.conversions import (
    TYPES,
    UNSIGNED,
    UNSIGNED_LONG,
    Width,
    common,
    of_constant,
    promoted,
)
from lbtrace.expressions.operands import (
    Constant,
    Located,
    Moment,
    Operand,
    Pseudo,
    Scope,
    address_in,
    number_in,
)
from lbtrace.expressions.tree import ExpressionError, Sum
from lbtrace.expressions.unsuited import refuse_declared, refuse_handle
from lbtrace.model import Fetch, Type


def is_near(address: Fetch) -> bool:
    """Return whether a fetch can say how far away it is: ``struct lbt_fetch``."""
    return -(1 << 63) <= address.offset < 1 << 63 and all(
        -(1 << 31) <= offset < 1 << 31 for offset in address.derefs
    )


def add(node: Sum, left: Located, right: Located, scope: Scope) -> Located:
    """Return the sum of what lies at ``left`` and ``right``. Raises `ExpressionError`."""
    for each in (left, right):
        if isinstance(each, Operand):  # how far one more leads is else not known
            refuse_declared(each.at, each.type)
            refuse_handle(each.at, each.type)
    sign = -1 if node.taken else 1
    match left, right:
        case (Pseudo(at=at, name=name), _) | (_, Pseudo(at=at, name=name)):
            raise ExpressionError(
                at, f"{name} can be compared, not added", "compare it: pid == 4711"
            )
        case Constant() as one, Constant() as other:
            return one.of(node.at, other, number_of(one) + sign * number_of(other))
        case Operand() as first, Operand() as second:
            return _sum_of_values(node.at, first, second, sign, scope)
        case Operand() as operand, Constant() as constant:
            return _moved(node.at, operand, constant, sign, scope)
        case Constant() as constant, Operand() as operand:
            return _taken_from(node.at, constant, operand, sign, scope)
    raise AssertionError


def _moved(at: int, operand: Operand, constant: Constant, sign: int, scope: Scope) -> Operand:
    """A value and a number."""
    type = sum_type(operand, constant)
    offset = as_signed_word(sign * number_of(constant) * _step(type))
    whole = operand.type.size == WORD and not operand.bits[1]
    if not whole or not is_near(address := moved(address_in(operand), offset)):
        address = replace(from_slot(operand, scope), offset=offset)
    return Operand(at, type, Location(words=(address,)), operand.moment)


def _taken_from(at: int, constant: Constant, operand: Operand, sign: int, scope: Scope) -> Operand:
    """A number, and a value added to it or taken from it."""
    type = sum_type(operand, constant)
    if type.is_address and sign < 0:
        raise ExpressionError(at, "an address cannot be taken from a number", "cast it: (long)arg0")
    offset = as_signed_word(number_of(constant) * _step(type))
    fetch = Fetch(base="constant", offset=offset, plus=slot_of(operand, scope), factor=sign)
    return Operand(at, type, Location(words=(fetch,)), operand.moment)


def _sum_of_values(at: int, left: Operand, right: Operand, sign: int, scope: Scope) -> Operand:
    if right.type.is_address and not left.type.is_address and sign > 0:
        left, right = right, left
    if right.type.is_address:
        raise ExpressionError(at, "two addresses cannot be added", "cast one: (long)arg1")
    moment = together(at, left, right)
    type = left.type
    if not type.is_address:
        type = TYPES[common(promoted_type(left), promoted_type(right))]
    base, factor = from_slot(left, scope), sign * _step(type)
    added = replace(base, plus=slot_of(right, scope), factor=factor)
    return Operand(at, type, Location(words=(added,)), moment)


def as_signed_word(offset: int) -> int:
    """Return a number as the signed one of 64 bits that stands for it."""
    offset = UNSIGNED_LONG.wrapped(offset)
    return offset - ((offset >> 63) << 64)


def _step(type: Type) -> int:
    """How far one more leads: the size of what a pointer points to."""
    return type.target.size or 1 if type.is_address and type.target is not None else 1


def sum_type(operand: Operand, constant: Constant) -> Type:
    """Return the type of a value and a constant added. Raises `ExpressionError`."""
    if operand.type.is_address:
        return operand.type
    number = of_constant(number_of(constant), constant.form == "hexadecimal")
    if number is None:
        raise ExpressionError(
            constant.at, "this number needs more than 64 bits", "write a smaller one"
        )
    return TYPES[common(promoted_type(operand), number)]


def promoted_type(operand: Operand) -> Width:
    """Return what an operand computes as. Raises `ExpressionError`."""
    if not operand.type.computes or operand.type.size > WORD:
        number_in(operand)
    return promoted(operand.type, operand.bits[1])


def number_of(constant: Constant) -> int:
    """Return the integer that a constant is. Raises `ExpressionError`."""
    if isinstance(constant.value, bytes):
        raise ExpressionError(constant.at, "text is not a number", "text can be compared only")
    if isinstance(constant.value, float):
        what = "the kernel does not compute with decimals"
        raise ExpressionError(constant.at, what, "compare a float or double by itself: x > 1.5")
    return constant.value


def slot_of(operand: Operand, scope: Scope) -> int:
    """Return the slot in which the number ``operand`` is fetched."""
    return scope.take(operand.at, operand.moment, number_in(operand))


def from_slot(operand: Operand, scope: Scope) -> Fetch:
    """Return what fetches the number ``operand`` again, for what is computed from it."""
    return Fetch(base="slot", earlier=slot_of(operand, scope))


def converted(operand: Operand, shared: Width, scope: Scope) -> Operand:
    """Return a number as one of the type in which it is computed or compared, as C converts it."""
    if shared != UNSIGNED or not operand.type.signed:
        return operand
    if operand.type.size < UNSIGNED.size or operand.bits[1]:  # first its own sign
        place = Location(words=(from_slot(operand, scope),))
        return Operand(operand.at, TYPES[UNSIGNED], place, operand.moment)
    return replace(operand, type=TYPES[UNSIGNED])


def together(at: int, one: Operand, other: Operand) -> Moment:
    """Return the moment (entry or return) at which both operands are available."""
    if {one.moment, other.moment} == {"entry", "return"}:
        raise ExpressionError(
            at,
            "an argument and the result are not available at the same time",
            "compare each with a number; after(p) reads at the return what p points to",
        )
    return other.moment if one.moment == "any" else one.moment
