"""How many elements a value has that keeps them elsewhere, and one of them."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import Location, moved
from lbtrace.expressions.arithmetic import add, from_slot, slot_of
from lbtrace.expressions.operands import UNREADABLE, Constant, Located, Operand, Scope, address_in
from lbtrace.expressions.operations import combine
from lbtrace.expressions.own_values import check_distance, part_of
from lbtrace.expressions.tree import Binary, ExpressionError, Number, Sum
from lbtrace.model import Fetch


def count(at: int, whole: Operand, scope: Scope) -> Located:
    """Return how many elements or bytes a value has. Raises `ExpressionError`."""
    counted = whole.type.counted()
    if counted is None:
        name = whole.type.name or "a value"
        hint = "len() takes strings, containers, slices and maps that know their own length"
        raise ExpressionError(at, f"this is {name}: its length is not known", hint)
    last, first, step = counted
    nothing = Number(at, 0)  # what is computed has been found already
    found: Located = part_of(at, whole, last)
    if first is not None:
        found = add(Sum(at, nothing, nothing, True), found, part_of(at, whole, first), scope)
    if step > 1:
        found = combine(Binary(at, "/", nothing, nothing), found, Constant(at, step), scope)
    return found


def element(at: int, whole: Operand, index: int, scope: Scope) -> Operand:
    """Return an element of a value of which `Type.elements` says where they are; beyond the last,
    its address is computed by a division by 0, of no size as it counts as none, so that nothing is
    read. Raises `ExpressionError`.
    """
    held = whole.type.elements()
    assert held is not None
    target = held.type.target
    if index < 0:
        raise ExpressionError(at, "an index counts from the first element", "[0] is the first")
    if target is None or not target.is_known or not target.size:
        raise ExpressionError(at, f"the elements of {whole.type.name} are not known", UNREADABLE)
    pointer = part_of(at, whole, held)
    start = address_in(pointer)
    if start.plus >= 0:  # it follows an index
        start = from_slot(pointer, scope)
    divide, zero = Binary(at, "/", Number(at, 0), Number(at, 0)), Constant(at, 0)
    reached = combine(divide, count(at, whole, scope), Constant(at, index + 1), scope)
    guard = combine(divide, zero, reached, scope)
    assert isinstance(guard, Operand)
    (word,) = guard.place.words
    assert isinstance(word, Fetch)
    guard = replace(guard, place=Location(words=(replace(word, size=0),)))
    address = moved(replace(start, plus=slot_of(guard, scope), factor=1), index * target.size)
    check_distance(at, address)
    return Operand(at, target, Location(memory=address), whole.moment)
