"""What belongs to a function or its calls, by name, and the parts of it."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import Location, moved
from lbtrace.expressions.arithmetic import is_near
from lbtrace.expressions.operands import GOROUTINE, PSEUDO, Located, Operand, Pseudo, Scope
from lbtrace.expressions.tree import TIMES_OFF_CPU, ExpressionError, Name, Node
from lbtrace.fetch.lasting import Content, least
from lbtrace.model import Fetch, Member

ERROR = "err", "error"
"""What a result of Go's type for errors is called."""


def own_value(node: Name, scope: Scope) -> Located | None:
    """Return the value that the function itself calls so, or that belongs to each call of it."""
    if node.name == "retval":
        return Operand(node.at, *scope.result, "return")
    for name, type, place in scope.arguments:
        if name == node.name:
            whole = Operand(node.at, type, place, scope.moment)
            return _content(whole, scope.contents[name], scope) if name in scope.contents else whole
    if node.name == GOROUTINE and scope.names.goroutine:
        return Pseudo(node.at, "goroutine")
    if node.name in TIMES_OFF_CPU and scope.names.off_cpu:
        return Pseudo(node.at, node.name)  # type: ignore[arg-type]
    return _named_result(node, scope)


def _content(whole: Operand, content: Content, scope: Scope) -> Operand:
    """What an argument leads to, for which it stands."""
    start, _ = whole.place.word()
    assert isinstance(start, Fetch)
    length = least(content.lengths, lambda fetch: scope.take(whole.at, whole.moment, fetch))
    return replace(whole, type=content.type, start=start, length=length)


def is_outside(node: Node, scope: Scope) -> bool:
    """Return whether ``node`` is a name, and that of no value of the function."""
    if not isinstance(node, Name) or node.name in PSEUDO:
        return False
    return own_value(node, scope) is None


def _named_result(node: Name, scope: Scope) -> Operand | None:
    """The result with a name of its own, or one of several, as Go has them; ``err`` is the last
    that is an error, whatever its name."""
    type, place = scope.result
    whole = Operand(node.at, type, place, "return")
    if scope.result_name or type.name:
        named = scope.result_name == node.name or (node.name, type.name) == ERROR
        return whole if named else None
    members = {m.name: m for m in type.components() or ()}
    errors = (m for m in reversed(members.values()) if (node.name, m.type.name) == ERROR)
    found = members.get(node.name) or next(errors, None)
    return None if found is None else part_of(node.at, whole, found)


def part_of(at: int, whole: Operand, member: Member) -> Operand:
    """Return a member of a value. Raises `ExpressionError` if it lies too far away."""
    place, offset = whole.place, member.offset
    if place.memory is not None:
        place = Location(memory=moved(place.memory, offset))
        check_distance(at, moved(whole.place.memory or Fetch(), offset))
    else:
        place = place.inside(offset)
    bits = (member.bit_offset, member.bit_size)
    return replace(Operand(at, member.type, place, whole.moment), bits=bits)


def check_distance(at: int, address: Fetch) -> None:
    """Raise `ExpressionError` where no fetch reaches an address."""
    if not is_near(address):
        raise ExpressionError(at, "this is too far away", "an index leads 2 GB away at most")
