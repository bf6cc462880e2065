"""Where the parts of an expression lie, in a given function.

Every node becomes an `Operand`: a typed value with a place. The sum of two
values is one that starts from the slots in which they are fetched. What the
kernel program cannot compute (the product of two arguments, say) is refused.
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Location, moved
from lbtrace.expressions import elements
from lbtrace.expressions.arithmetic import add, from_slot, together
from lbtrace.expressions.conversions import width
from lbtrace.expressions.globals import of_package, of_program
from lbtrace.expressions.names import named
from lbtrace.expressions.operands import (
    Constant,
    Located,
    Operand,
    Pseudo,
    Scope,
    address_in,
    kept_to_return,
    leads_to_start,
    not_a_value,
    number_in,
    returns_nothing,
    text_behind,
)
from lbtrace.expressions.operations import combine
from lbtrace.expressions.own_values import check_distance, is_outside, part_of
from lbtrace.expressions.tree import (
    After,
    ArgExpression,
    Binary,
    Cast,
    Dereference,
    ExpressionError,
    Field,
    LengthOf,
    Name,
    NamedType,
    Node,
    Number,
    Quoted,
    Register,
    Sum,
    TextOf,
    spelled,
    written,
)
from lbtrace.expressions.unsuited import (
    PARTS,
    how_to_compare_event,
    never_nil,
    no_elements,
    no_members,
    no_such_cast,
    refuse_declared,
    refuse_handle,
)
from lbtrace.model import LONG, Fetch, Member, Type
from lbtrace.recognize.wide_text import is_wide
from lbtrace.values.pointer import NIL
from lbtrace.values.string import GO_TEXT, TEXT

LENGTHS = frozenset({"size", "length", "len"})
"""What the length of a value is called by those who write its type."""


def locate(node: Node, scope: Scope) -> Located:  # noqa: PLR0911, PLR0912 - a return for each case
    """Return where ``node`` lies. Raises `ExpressionError`."""
    if not isinstance(node, Name) and scope.contents:  # of a part it is the address that counts
        scope = replace(scope, contents={})
    match node:
        case Number():
            return Constant(node.at, node.value, node.form)
        case Quoted():
            return Constant(node.at, node.value)
        case Name():
            return named(node, scope)
        case Register():
            if node.name not in scope.names.registers:
                known = ", ".join(scope.names.registers)
                raise ExpressionError(
                    node.at, f"there is no register {node.name}", f"there are {known}"
                )
            return Operand(node.at, LONG, Location(words=(Fetch(register=node.name),)))
        case TextOf():
            return _text(node, scope)
        case After():
            return kept_to_return(_operand(node.inner, scope), scope)
        case LengthOf():
            return _count(node, scope)
        case Cast():
            type = of_program(node.type, scope) if isinstance(node.type, NamedType) else node.type
            return cast(node.at, type, locate(node.inner, scope), scope)
        case Dereference():
            return _element(node, _pointer(_operand(node.inner, scope)), scope)
        case Field():
            return of_package(node, scope) or _field(node, _operand(node.inner, scope), scope)
        case Sum():
            return add(node, compute(node.left, scope), compute(node.right, scope), scope)
        case Binary():
            return combine(node, *compute_both(node.left, node.right, scope, False), scope)


def compute(node: Node, scope: Scope) -> Located:
    """As `locate`, of what is computed or compared with: a reference is what it leads to, which is
    one value."""
    found = locate(node, scope)
    if not isinstance(found, Operand):
        return found
    if not found.type.has_values:
        raise returns_nothing(found.at)
    if found.type.is_alias() or not found.type.is_address:  # an address itself is compared
        refuse_declared(node.at, found.type)
    if found.type.is_alias() and not found.type.code:
        if found.type.target is None:  # it leads to what has members, or is not known
            what, name = f"this is {found.type.name}, which is no number", written(node)
            raise ExpressionError(node.at, what, f"name a member of it, as in {name or 'node'}.key")
        found = _dereference(Dereference(node.at, node), found)
    found = _pointer(found)
    first = None if found.type.is_written else found.type.element_at(0)
    if first is not None and not first.type.is_char() and found.start is None:
        what, name = f"this is {found.type.name}, which has elements", written(node) or "array"
        while first is not None and not first.type.is_char():
            name, first = f"{name}[0]", first.type.element_at(0)
        raise ExpressionError(node.at, what, f"name one: {name}")
    return found


def compute_both(left: Node, right: Node, scope: Scope, equality: bool) -> tuple[Located, Located]:
    """As `compute`, of two values that are compared, if only for ``equality``: what is not known by
    its name is a constant of the enumeration that the other one is of, though one elsewhere may
    have that name, too, or one of its states, of which a part of it tells."""
    if is_outside(left, scope) and not is_outside(right, scope):
        right_found, left_found = compute_both(right, left, scope, equality)
        return left_found, right_found
    found = compute(left, scope)
    if isinstance(found, Operand) and is_outside(right, scope):
        assert isinstance(right, Name)
        for name, member, number in found.type.named_states() if equality else ():
            if name == right.name:
                return part_of(left.at, found, member), Constant(right.at, number)
        scope = replace(scope, compared=found.type)
    elif isinstance(found, Operand) and isinstance(right, Binary):  # constants in it
        scope = replace(scope, compared=found.type)
    try:
        return found, compute(right, scope)
    except ExpressionError as error:
        if isinstance(found, Pseudo) and isinstance(right, Name) and error.lacks_name:
            # No value of the function is compared with it: to list them is no help.
            error.hint = how_to_compare_event(found.name, right.name)
        if isinstance(found, Operand) and isinstance(right, Name) and right.name == NIL:
            raise never_nil(right.at, found.type, equality=equality) from None
        raise


def _operand(node: Node, scope: Scope) -> Operand:
    found = locate(node, scope)
    if not isinstance(found, Operand):
        raise not_a_value(found.at)
    return found


def _element(node: Dereference, inner: Operand, scope: Scope) -> Operand:
    """What ``inner`` leads to, or its element where it, or what it refers to, keeps some."""
    target = inner.type.target if inner.type.is_alias() else None
    whole = inner
    if node.subscript and target is not None and target.elements() is not None:
        whole = _dereference(Dereference(node.at, node.inner), inner)
    if not node.subscript or whole.type.elements() is None:
        return _dereference(node, inner)
    return elements.element(node.at, whole, node.index, scope)


def _count(node: LengthOf, scope: Scope) -> Located:
    inner = _pointer(_operand(node.inner, scope))
    target = inner.type.target if inner.type.is_address else None
    # Maps and channels of Go are pointers to headers of the same name.
    is_header = target is not None and target.name == inner.type.name
    if target is not None and (target.counted() or is_header or inner.type.is_alias()):
        inner = _dereference(Dereference(node.at, node.inner), inner)
        if is_header and (header := _member(inner.type, "len")) is not None:
            return part_of(node.at, inner, header)
    first = inner.type.element_at(0)
    if first is not None and not inner.type.is_open_ended():
        return Constant(node.at, inner.type.size // first.type.size)
    return elements.count(node.at, inner, scope)


def _text(node: TextOf, scope: Scope) -> Operand:
    inner = _operand(node.start, scope)
    if not node.raw:  # buf() takes the bytes of anything
        refuse_declared(inner.at, inner.type)
    behind = inner.type.target if inner.type.is_alias() else None
    if leads_to_start(inner.type) or (behind is not None and is_wide(behind)):
        inner = _dereference(Dereference(node.at, node.start), inner)
    if not node.raw:
        inner = _followed_text(node, inner)
        if node.length is None and is_wide(inner.type):
            return inner
        if node.length is None and inner.type.is_text() and not inner.type.is_address:
            return inner
        if node.length is None and inner.type.may_be_text():
            return replace(inner, at=node.at, type=GO_TEXT)
    if inner.type.element_at(0) is not None and inner.place.memory is not None:
        start = inner.place.memory  # its characters lie right there
    else:
        start = address_in(inner, written(node.start))
    length = None if node.length is None else _length(node, node.length, inner, scope)
    return Operand(node.at, TEXT, inner.place, inner.moment, start=start, length=length)


def _length(node: TextOf, length: Node, inner: Operand, scope: Scope) -> Fetch | int:
    """The ``length`` of the text that ``inner`` leads to: a number, or what fetches it."""
    counted = locate(length, scope)
    if isinstance(counted, Operand):
        together(node.at, inner, counted)
        return number_in(counted)
    if not isinstance(counted, Constant) or not isinstance(counted.value, int):
        hint = "write a number, or the value that holds it"
        raise ExpressionError(counted.at, "a length is expected here", hint)
    if not 0 < counted.value <= 4000:
        hint = f"write {'buf' if node.raw else 'str'}({written(node.start) or 'arg0'}, 64)"
        raise ExpressionError(counted.at, "a length from 1 to 4000 is expected", hint)
    return counted.value


def _followed_text(node: TextOf, inner: Operand) -> Operand:
    """The text that ``inner`` is, or leads to, if it has a length of its own; else ``inner``."""
    if (leads := text_behind(inner.type)) is not None:
        if leads.is_address:
            hint = f"write str(*{written(node.start) or 'p'})"
            raise ExpressionError(inner.at, f"this is {inner.type.name}, not text", hint)
        inner = _dereference(Dereference(node.at, node.start), inner)
    texts = inner.type.is_text() or (is_wide(inner.type) and inner.type.through)
    sized = texts and not (inner.type.is_address or inner.type.is_open_ended())
    if node.length is not None and sized:
        what = f"this is {inner.type.name or 'text'}, which has a length of its own"
        hint = f"leave the length out: str({written(node.start) or 'name'})"
        raise ExpressionError(node.start.at, what, hint)
    return inner


def cast(at: int, type: Type, inner: Located, scope: Scope) -> Located:
    """``inner`` converted to ``type``, as C does it. Raises `ExpressionError`."""
    if type.is_real:
        known = inner.type if isinstance(inner, Operand) else None
        if known is None or not known.is_real or known.size != type.size:
            raise no_such_cast(at, type, known)
        return replace(inner, at=at, type=type)
    if isinstance(inner, Constant) and isinstance(inner.value, int):
        truth = type.is_truth
        return Constant(at, int(bool(inner.value)) if truth else width(type).wrapped(inner.value))
    if not isinstance(inner, Operand) or not inner.type.computes:
        raise no_such_cast(at, type, inner.type if isinstance(inner, Operand) else None)
    size, wanted = inner.type.size, type.size
    if type.is_address and size < WORD:
        raise ExpressionError(
            at, "this is too small for a pointer", "cast a number of eight bytes, or a pointer"
        )
    if type.is_truth and not inner.type.is_truth:
        raise ExpressionError(
            at, "numbers cannot be converted to truth values", "compare it with 0"
        )
    if wanted > size or inner.bits[1]:  # first its own sign, then what is wanted of it
        words = (from_slot(inner, scope),)
        return Operand(at, type, Location(words=words), inner.moment)
    return replace(inner, at=at, type=type)


def label(wanted: ArgExpression, scope: Scope, *, arrows: bool) -> str:
    """Return what a value is called, however it was asked for: as the source would write it, with
    ``arrows`` behind pointers where its language has them."""
    if wanted.name != wanted.source.strip():
        return wanted.name
    return _label(wanted.node, scope, arrows) or wanted.name


def _label(node: Node, scope: Scope, arrows: bool) -> str:
    if isinstance(node, Name):
        return node.name
    if (
        isinstance(node, Dereference)
        and node.subscript
        and (name := _label(node.inner, scope, arrows))
    ):
        return f"{name}[{node.index}]"
    if not isinstance(node, Field):
        return ""
    start = node.inner
    if isinstance(start, Dereference) and not start.subscript:
        start = start.inner
    if not (name := _label(start, scope, arrows)):
        return ""
    found = locate(start, scope) if of_package(node, scope) is None else None
    if not isinstance(found, Operand):
        return ""
    found = _smart(found)
    held = found if _own_member(found, node.name) else _pointer(found)
    arrow = arrows and held.type.is_address and not held.type.is_alias()
    return f"{name}{'->' if arrow else '.'}{spelled(node.name)}"


def _pointer(found: Operand) -> Operand:
    """The pointer for which ``found``, or what it refers to, stands: that in a smart pointer; else
    ``found``."""
    found = _smart(found)
    held = found.type.stands_for()
    return found if held is None else part_of(found.at, found, held)


def _smart(found: Operand) -> Operand:
    """The smart pointer to which ``found`` refers, if to one; else ``found``."""
    if found.type.is_alias() and found.type.target is not None and found.type.target.stands_for():
        return _dereference(Dereference(found.at, Name(found.at, "")), found)
    return found


def _own_member(inner: Operand, name: str) -> Member | None:
    """What a smart pointer has of this name itself, if what it leads to has none."""
    held, own = inner.type.stands_for(), inner.type.representation()
    target = None if held is None else held.type.target
    if own is None or (target is not None and _member(target, name) is not None):
        return None
    return _member(own, name)


def _dereference(node: Dereference, inner: Operand) -> Operand:
    if node.subscript and inner.type.is_alias():
        inner = _dereference(Dereference(node.at, node.inner), inner)
    element = inner.type.element_at(node.index)
    if element is not None:
        return part_of(node.at, inner, element)
    refuse_declared(node.at, inner.type)
    if node.subscript:
        refuse_handle(node.at, inner.type)
    if not inner.type.is_address:
        name = written(node.inner)
        raise no_elements(node.at, inner.type, node.index, name, subscript=node.subscript)
    target = inner.type.target
    if target is None or not target.is_known:
        raise ExpressionError(
            node.at, f"what a {inner.type.name} leads to is not known", "cast it first"
        )
    if node.index and target.is_open_ended() and not target.size:
        hint = "its first is (*p)[0]"
        raise ExpressionError(node.at, f"the size of {target.name} is not known", hint)
    at = moved(address_in(inner), node.index * (target.size or 1))
    if len(at.derefs) > 4:
        raise ExpressionError(
            node.at, "this lies behind five or more pointers", "four can be followed"
        )
    check_distance(node.at, at)
    return Operand(node.at, target, Location(memory=at), inner.moment)


def _field(node: Field, inner: Operand, scope: Scope) -> Located:
    type, whole = inner.type, inner.type
    refuse_declared(node.at, type)
    inner = _smart(inner)
    if (own := _own_member(inner, node.name)) is not None:
        return part_of(node.at, inner, own)
    inner = _pointer(inner)
    if inner.type.is_address:  # as debuggers allow it
        inner = _dereference(Dereference(node.at, Name(node.at, "")), inner)
        type = inner.type
    if not type.named_parts() and type.components() is None:
        if node.name in LENGTHS and inner.type.counted() is not None:
            return elements.count(node.at, inner, scope)
        raise no_members(node.at, whole if whole.is_text() else type, written(node.inner))
    if node.called and type.components() is not None:
        names = ", ".join([spelled(m.name) for m in type.named_parts() if m.name][:PARTS])
        hint = f"name a member of it: {names}" if names else "take another value"
        raise ExpressionError(node.at, "methods cannot be called", hint)
    found = _member(type, node.name)
    if found is None:
        known = [spelled(m.name) for m in type.named_parts() if m.name]
        are = "are" if len(known) > 1 else "is"
        hint = f"there {are} {', '.join(known)}" if known else "its members are not known"
        of = type.name or ("the result" if inner.moment == "return" else "this")
        what = f"{of} has no member {spelled(node.name)}"
        raise ExpressionError(node.at, what, hint, lacks_name=True)
    return part_of(node.at, inner, found)


def _member(type: Type, name: str) -> Member | None:
    """A member by name, those of unnamed members and of bases included."""
    for member in type.named_parts():
        if member.name == name:
            return member
    for member in type.named_parts():
        inner = None if member.type.components() is None else _member(member.type, name)
        if inner is not None:
            return replace(inner, offset=member.offset + inner.offset)
    return None
