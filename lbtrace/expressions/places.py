"""Where the parts of an expression lie, in a given function.

Every node becomes an `Operand`: a typed value with a place. The sum of two
values is one that starts from the slots in which they are fetched. What the
kernel program cannot compute (the product of two arguments, say) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.arch.places import WORD, Place, dereferenced, is_text, moved
from lbtrace.expressions.tree import (
    Cast,
    Dereference,
    Field,
    Name,
    Node,
    Number,
    Product,
    Quoted,
    Register,
    Sum,
    TextOf,
    Unclear,
)
from lbtrace.model import (
    LONG,
    Array,
    Boolean,
    Character,
    Enumeration,
    Fetch,
    Float,
    Integer,
    Member,
    Opaque,
    Pointer,
    Record,
    String,
    Type,
    Word,
)

Moment: TypeAlias = Literal["entry", "return", "any"]
"""When a value is there: arguments at entry, the result at return."""

PSEUDO = frozenset({"pid", "tid", "comm", "duration"})
"""What the kernel program knows of every event, or of every return."""

TEXT = String("str")


class Operand(Struct, frozen=True):
    """A typed value in its place. Text has its ``start`` and perhaps a
    ``length`` (a place or a number); ``bits`` are those of a bit field."""

    at: int
    type: Type
    place: Place
    moment: Moment = "any"
    start: Fetch | None = None
    length: Fetch | int | None = None
    bits: tuple[int, int] = (0, 0)


class Constant(Struct, frozen=True):
    """A value known beforehand."""

    at: int
    value: int | bytes


class Pseudo(Struct, frozen=True):
    """One of `PSEUDO`."""

    at: int
    name: Literal["pid", "tid", "comm", "duration"]


class Scope(Struct, frozen=True):
    """The names that an expression may use in one function.

    ``arguments`` are its parameters, each with its name, its type and its
    place; further ones are those that the convention would have.
    ``registers`` are the names that ``reg`` knows. ``slot`` finds a slot for
    what is fetched at a moment; -1 where none is left.
    """

    arguments: tuple[tuple[str, Type, Place], ...]
    result: tuple[Type, Place]
    registers: tuple[str, ...]
    slot: Callable[[Moment, Fetch], int]


Located: TypeAlias = Operand | Constant | Pseudo


def locate(node: Node, scope: Scope) -> Located:  # noqa: PLR0911
    """Where ``node`` lies. Raises `Unclear`."""
    match node:
        case Number():
            return Constant(node.at, node.value)
        case Quoted():
            return Constant(node.at, node.value)
        case Name():
            return _name(node, scope)
        case Register():
            if node.name not in scope.registers:
                known = ", ".join(scope.registers)
                raise Unclear(node.at, f"there is no register {node.name}", f"there are {known}")
            return Operand(node.at, LONG, Place(words=(Fetch(register=node.name),)))
        case TextOf():
            return _text(node, scope)
        case Cast():
            return _cast(node, locate(node.inner, scope))
        case Dereference():
            return _dereference(node, _operand(node.inner, scope))
        case Field():
            return _field(node, _operand(node.inner, scope))
        case Sum():
            return _sum(node, scope)
        case Product():
            return _product(node, locate(node.left, scope), locate(node.right, scope), scope)


def _name(node: Name, scope: Scope) -> Located:
    if node.name in PSEUDO:
        return Pseudo(node.at, node.name)  # type: ignore[arg-type]
    if node.name in ("NULL", "nullptr", "false", "true"):
        return Constant(node.at, int(node.name == "true"))
    if node.name == "retval":
        type, place = scope.result
        return Operand(node.at, type, place, "return")
    for name, type, place in scope.arguments:
        if name == node.name:
            return Operand(node.at, type, place, "entry")
    if node.name.startswith("arg") and node.name[3:].isdecimal():
        number = int(node.name[3:])
        if number < len(scope.arguments):
            _, type, place = scope.arguments[number]
            return Operand(node.at, type, place, "entry")
        raise Unclear(node.at, f"there is no argument {number}", "arg0 is the first")
    for _, type, _ in (*scope.arguments, ("", *scope.result)):
        if isinstance(type, Enumeration):
            for value, name in type.values:
                if name == node.name:
                    return Constant(node.at, value)
    names = [name for name, _, _ in scope.arguments if name]
    raise Unclear(node.at, f"{node.name} is not known", f"there are {', '.join(names)}, retval")


def _operand(node: Node, scope: Scope) -> Operand:
    found = locate(node, scope)
    if not isinstance(found, Operand):
        raise Unclear(found.at, "this is no value of the function")
    return found


def address_in(operand: Operand) -> Fetch:
    """What fetches the pointer or integer that ``operand`` is. Raises `Unclear`."""
    place = operand.place
    if getattr(operand.type, "size", 0) != WORD or operand.bits[1]:
        raise Unclear(operand.at, "an address is expected here, this is smaller or larger")
    if place.memory is not None:
        return dereferenced(place.memory)
    word, into = place.word()
    if isinstance(word, str) or into:
        raise Unclear(operand.at, unreadable(word if isinstance(word, str) else "", place))
    return dereferenced(replace(word, read="value")) if word.read == "integer" else word


def unreadable(reason: str, place: Place) -> str:
    """Why a value cannot be had, in words."""
    reason = reason or place.reason
    return f"this cannot be read{': ' + reason if reason else ''}"


def _text(node: TextOf, scope: Scope) -> Operand:
    inner = _operand(node.start, scope)
    if isinstance(inner.type, String) and node.length is None:
        return inner
    if _may_be_text(inner.type) and node.length is None:
        return replace(inner, at=node.at, type=String("", 2 * WORD, 0, WORD))
    if isinstance(inner.type, Array) and inner.place.memory is not None:
        start = inner.place.memory  # its characters lie right there
    else:
        start = address_in(inner)
    length: Fetch | int | None = None
    if node.length is not None:
        counted = locate(node.length, scope)
        if isinstance(counted, Constant) and isinstance(counted.value, int):
            if not 0 < counted.value <= 4000:
                raise Unclear(counted.at, "a length from 1 to 4000 is expected")
            length = counted.value
        elif isinstance(counted, Operand):
            together(node.at, inner, counted)
            length = number_in(counted)
        else:
            raise Unclear(counted.at, "a length is expected here")
    return Operand(node.at, TEXT, inner.place, inner.moment, start=start, length=length)


def _may_be_text(type: Type) -> bool:
    """Whether these are two words of which nothing else is known: a Go string, if any text."""
    return (
        isinstance(type, Record)
        and [m.offset for m in type.members] == [0, WORD]
        and all(isinstance(m.type, Word) for m in type.members)
    )


def number_in(operand: Operand) -> Fetch:
    """What fetches the number that ``operand`` is, in its width. Raises `Unclear`."""
    size = getattr(operand.type, "size", 0)
    signed = bool(getattr(operand.type, "signed", False))
    if isinstance(operand.type, Float):
        raise Unclear(operand.at, "the kernel does not compute with floats", "compare integers")
    scalar = isinstance(operand.type, Integer | Character | Boolean | Pointer | Enumeration)
    if not scalar or not 0 < size <= WORD:
        raise Unclear(operand.at, "a number is expected here")
    shift, width = operand.bits
    place = operand.place
    if place.memory is not None:
        read = replace(place.memory, read="integer", size=size, signed=signed)
        return replace(read, bit_offset=shift, bit_size=width) if width else read
    word, into = place.word()
    if isinstance(word, str):
        raise Unclear(operand.at, unreadable(word, place))
    shift += 8 * into
    width = width or 8 * size
    if not shift and width == 64:
        return replace(word, signed=signed)
    return replace(word, signed=signed, bit_offset=shift, bit_size=width)


def _cast(node: Cast, inner: Located) -> Located:
    if isinstance(inner, Constant):
        return inner
    if isinstance(inner, Pseudo) or not isinstance(
        inner.type, Integer | Character | Boolean | Pointer | Enumeration
    ):
        raise Unclear(node.at, "only numbers and pointers can be cast")
    size, wanted = inner.type.size, getattr(node.type, "size", 0)
    if isinstance(node.type, Float):
        raise Unclear(node.at, "numbers cannot be converted to floats", "cast a pointer: *(float*)")
    if isinstance(node.type, Pointer) and size < WORD:
        raise Unclear(node.at, "this is too small for a pointer")
    if wanted > size:  # keeps its value, and so the width it is read in
        signed = bool(getattr(inner.type, "signed", False))
        return replace(inner, at=node.at, type=Integer(node.type.name, size, signed))  # type: ignore[union-attr]
    return replace(inner, at=node.at, type=node.type)


def _dereference(node: Dereference, inner: Operand) -> Operand:
    if isinstance(inner.type, Array):
        step = inner.type.size // inner.type.count
        return _part(node.at, inner, inner.type.element, node.index * step)
    if not isinstance(inner.type, Pointer):
        raise Unclear(node.at, "this is no pointer", "cast it first: *(int*)arg0")
    target = inner.type.target
    if target is None or isinstance(target, Opaque):
        raise Unclear(node.at, f"what a {inner.type.name} leads to is not known", "cast it first")
    at = moved(address_in(inner), node.index * getattr(target, "size", 1))
    if len(at.derefs) > 4:
        raise Unclear(node.at, "this is behind too many pointers", "four can be followed")
    return Operand(node.at, target, Place(memory=at), inner.moment)


def _field(node: Field, inner: Operand) -> Operand:
    type = inner.type
    if isinstance(type, Pointer):  # as debuggers allow it
        inner = _dereference(Dereference(node.at, Name(node.at, "")), inner)
        type = inner.type
    if not isinstance(type, Record):
        raise Unclear(node.at, "this has no members")
    found = _member(type, node.name)
    if found is None:
        names = ", ".join(m.name for m in type.members if m.name)
        hint = f"there are {names}" if names else "its members are not known"
        raise Unclear(node.at, f"{type.name} has no member {node.name}", hint)
    part = _part(node.at, inner, found.type, found.offset)
    return replace(part, bits=(found.bit_offset, found.bit_size))


def _member(record: Record, name: str) -> Member | None:
    """A member by name, those of unnamed members and of bases included."""
    for member in record.members:
        if member.name == name:
            return member
    for member in record.members:
        if isinstance(member.type, Record):
            inner = _member(member.type, name)
            if inner is not None:
                return replace(inner, offset=member.offset + inner.offset)
    return None


def _part(at: int, whole: Operand, type: Type, offset: int) -> Operand:
    place = whole.place
    if place.memory is not None:
        place = Place(memory=moved(place.memory, offset))
    else:
        place = place.inside(offset)
    return Operand(at, type, place, whole.moment)


def _sum(node: Sum, scope: Scope) -> Located:
    left, right = locate(node.left, scope), locate(node.right, scope)
    if isinstance(left, Constant):
        if isinstance(right, Constant):
            return Constant(node.at, _number(left) + _number(right))
        left, right = right, left
    if isinstance(right, Operand) and isinstance(right.type, Pointer):
        left, right = right, left
    if isinstance(left, Pseudo):
        raise Unclear(left.at, f"{left.name} can be compared, not added")
    step = 1
    if isinstance(left.type, Pointer) and left.type.target is not None:
        step = getattr(left.type.target, "size", 1)
    if isinstance(right, Constant):
        if isinstance(left.type, Pointer) or getattr(left.type, "size", 0) == WORD:
            at = moved(address_in(left), _number(right) * step)
        else:
            at = replace(_from_slot(left, scope), offset=_number(right))
        return Operand(node.at, _wide(left.type), Place(words=(at,)), left.moment)
    if isinstance(right, Pseudo):
        raise Unclear(right.at, f"{right.name} can be compared, not added")
    moment = together(node.at, left, right)
    base = _from_slot(left, scope)
    if isinstance(right.type, Pointer):
        raise Unclear(node.at, "two addresses cannot be added", "cast one: (long)arg1")
    at = replace(base, plus=_slot(right, scope), factor=step)
    return Operand(node.at, _wide(left.type, right.type), Place(words=(at,)), moment)


def _product(node: Product, left: Located, right: Located, scope: Scope) -> Located:
    if isinstance(left, Constant):
        left, right = right, left
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(node.at, _number(left) * _number(right))
    if not isinstance(left, Operand) or not isinstance(right, Constant):
        raise Unclear(node.at, "a value can be multiplied by a number only")
    factor = _number(right)
    if not -(1 << 31) <= factor < 1 << 31:
        raise Unclear(right.at, "this is too large to multiply with")
    at = Fetch(base="constant", plus=_slot(left, scope), factor=factor)
    return Operand(node.at, _wide(left.type), Place(words=(at,)), left.moment)


def _number(constant: Constant) -> int:
    if isinstance(constant.value, bytes):
        raise Unclear(constant.at, "text is no number")
    return constant.value


def _slot(operand: Operand, scope: Scope) -> int:
    """The slot in which the number ``operand`` is fetched."""
    slot = scope.slot(operand.moment, number_in(operand))
    if slot < 0:
        raise Unclear(operand.at, "too many values for one probe")
    return slot


def _from_slot(operand: Operand, scope: Scope) -> Fetch:
    return Fetch(base="slot", earlier=_slot(operand, scope))


def _wide(*types: Type) -> Type:
    """The type in which numbers are added: as in C, but always of 64 bits."""
    if isinstance(types[0], Pointer):
        return types[0]
    unsigned = any(not getattr(t, "signed", False) and getattr(t, "size", 0) == WORD for t in types)
    return Integer("unsigned long", WORD, False) if unsigned else LONG


def together(at: int, one: Operand, other: Operand) -> Moment:
    """When both are there."""
    if {one.moment, other.moment} == {"entry", "return"}:
        raise Unclear(at, "an argument and the result are not there at the same time")
    return other.moment if one.moment == "any" else one.moment


def is_string(operand: Operand) -> bool:
    """Whether the value of ``operand`` is text."""
    return isinstance(operand.type, String) or is_text(operand.type)
