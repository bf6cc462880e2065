"""Typed values with a location, and how the numbers and addresses in them are fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi.locations import SPREAD, WORD, Location, dereferenced
from lbtrace.errors import option
from lbtrace.expressions.tree import ExpressionError
from lbtrace.expressions.unsuited import how_to_compare, no_number, only_declared
from lbtrace.fetch.lasting import Content, Lasting
from lbtrace.model import Fetch, Type

if TYPE_CHECKING:
    from lbtrace.dwarf.global_variables import GlobalVariables

Moment: TypeAlias = Literal["entry", "return", "any"]
"""When a value is there: arguments at entry, the result at return."""

PSEUDO = frozenset({"pid", "tid", "comm", "duration", "from_program"})
"""What the kernel program knows of every event, or of every return."""

GOROUTINE = "goroutine"
"""What it knows of every event in code of Go, where no value of a function is called so."""


class Operand(Struct, frozen=True):
    """A typed value in its place. Text has its ``start`` and perhaps a
    ``length`` (a place or a number); ``bits`` are those of a bit field."""

    at: int
    type: Type
    place: Location
    moment: Moment = "any"
    start: Fetch | None = None
    length: Fetch | int | None = None
    bits: tuple[int, int] = (0, 0)


class Constant(Struct, frozen=True):
    """A value known beforehand. What follows from a number's ``form`` is lost in computing."""

    at: int
    value: int | bytes | float
    form: Literal["decimal", "hexadecimal", "character", "time", "real"] = "decimal"

    def of(self, at: int, other: Constant, value: int) -> Constant:
        """Return the ``value`` that is computed of it and another one."""
        timed = "time" in (self.form, other.form)
        return Constant(at, value, "time" if timed else "decimal")


class Pseudo(Struct, frozen=True):
    """One of `PSEUDO`, `TIMES_OFF_CPU`, or, in Go, `GOROUTINE`."""

    at: int
    name: Literal[
        "pid", "tid", "comm", "duration", "blocked", "runnable", "goroutine", "from_program"
    ]


class Names(Struct, frozen=True):
    """What expressions may name besides parameters: ``registers``, in ``reg``, and where they
    ``stand_alone`` also by themselves; the result if there is a ``retval``; ``globals``; the number
    of the ``goroutine``; how long a call was ``off_cpu``; arguments that are ``lasting``."""

    registers: tuple[str, ...]
    stand_alone: bool = False
    retval: bool = True
    goroutine: bool = False
    off_cpu: bool = False
    globals: GlobalVariables | None = None
    lasting: Lasting | None = None


class Scope(Struct, frozen=True):
    """The names that an expression may use in one function.

    ``arguments`` are its parameters, each with its name, its type and its
    place; further ones are those that the convention would have. ``result`` is that of the
    function. ``slot`` finds a slot for what is fetched at a moment; -1 where none is left.
    An argument may be kept to the return if it ``keeps`` one.
    ``result_name`` is the name of the result itself, if it has one.
    What is known of every event may be named if it is asked ``of_events``, and the function as
    well if that is done ``of_keys``.
    ``compared`` is the type of what a name is compared with, whose constants it may mean.
    Arguments are read at the ``moment``, and stand for their ``contents``.
    """

    arguments: tuple[tuple[str, Type, Location], ...]
    result: tuple[Type, Location]
    names: Names
    slot: Callable[[Moment, Fetch], int]
    compared: Type | None = None
    keeps: bool = False
    result_name: str = ""
    of_events: bool = False
    of_keys: bool = False
    moment: Moment = "entry"
    contents: Mapping[str, Content] = {}

    def take(self, at: int, moment: Moment, fetch: Fetch) -> int:
        """Return the slot of what is fetched at a moment. Raises `ExpressionError` where none is
        left."""
        slot = self.slot(moment, fetch)
        if slot < 0:
            raise ExpressionError(
                at, "too many values for one probe", "a probe reads 16: ask for fewer"
            )
        return slot


UNREADABLE = f"name another value; without {option('arg')} all that can be read are shown"
"""What to do about a value that is not there."""

Located: TypeAlias = Operand | Constant | Pseudo


def not_a_value(at: int) -> ExpressionError:
    """Return what is wrong with a constant, or what is known of every call, where a value of the
    function is wanted."""
    hint = "name an argument, retval or a part of one; pid, comm and duration are for --where"
    return ExpressionError(at, "this is not a value of the function", hint)


def returns_nothing(at: int) -> ExpressionError:
    """Return what is wrong with the result of a function that has none."""
    return ExpressionError(
        at, "it returns nothing", "name an argument, or duration", lacks_name=True
    )


def as_number(left: Located, right: Located) -> Located:
    """Return ``right``, as the number that it is where values such as ``left`` are written so."""
    if isinstance(left, Operand) and isinstance(right, Constant) and isinstance(right.value, bytes):
        number = left.type.number_called(right.value)
        return right if number is None else Constant(right.at, number)
    return right


def address_in(operand: Operand, name: str = "") -> Fetch:
    """Return what fetches the pointer or integer that ``operand``, written as ``name``, is. Raises
    `ExpressionError`."""
    place = operand.place
    if operand.type.is_declared:
        raise only_declared(operand.at, operand.type)
    if operand.type.size != WORD or operand.bits[1]:
        what = f"an address is expected, this is {operand.type.name or 'a value'}"
        hint = "take a pointer, or a number of eight bytes"
        if operand.type.is_known and not operand.type.computes:
            hint = how_to_compare(operand.type, name)
        raise ExpressionError(operand.at, what, hint)
    if place.memory is not None:
        return dereferenced(place.memory)
    word, into = place.word()
    if isinstance(word, str) or into:
        reason = word if isinstance(word, str) else ""
        raise ExpressionError(operand.at, unreadable(reason, place), UNREADABLE)
    return dereferenced(replace(word, read="value")) if word.read == "integer" else word


def kept_to_return(operand: Operand, scope: Scope) -> Operand:
    """Return ``operand``, a pointer at entry or what it leads to, as it is found at the return.
    Raises `ExpressionError`."""
    at, place = operand.at, operand.place
    is_global = place.memory is not None and place.memory.base in ("file", "thread")
    if is_global and scope.names.retval and operand.start is None:
        return replace(operand, moment="return")
    if scope.moment == "return":
        return operand
    if not scope.keeps:
        what = "after() needs the return of a function of C, C++ or Rust"
        raise ExpressionError(at, what, "take the value as it is")
    if operand.moment == "return":
        raise ExpressionError(at, "this is of the return already", "write it without after()")
    if operand.start is not None or operand.bits[1]:
        hint = "put it around the pointer: str(after(buf))"
        raise ExpressionError(at, "after() takes a pointer", hint)
    found = place.memory if place.memory is not None else address_in(operand)
    if found.base != "register" or found.plus >= 0:
        what = "this cannot be kept to the return: at entry, no register holds it"
        raise ExpressionError(at, what, UNREADABLE)
    kept = replace(found, base="kept")
    location = Location(memory=kept) if place.memory is not None else Location(words=(kept,))
    return replace(operand, place=location, moment="return")


def unreadable(reason: str, place: Location) -> str:
    """Return why a value cannot be had, in words."""
    reason = reason or place.reason
    return f"this cannot be read{': ' + reason if reason else ''}"


def number_in(operand: Operand, name: str = "") -> Fetch:
    """Return what fetches the number that ``operand``, written as ``name``, is, in its width.
    Raises `ExpressionError`."""
    size, signed = operand.type.size, operand.type.signed
    if operand.type.is_real:
        hint = "compare a float or double by itself, with a number: x > 1.5"
        raise ExpressionError(operand.at, "the kernel does not compute with floats", hint)
    if not operand.type.has_values:
        raise returns_nothing(operand.at)
    if operand.type.is_declared:
        raise only_declared(operand.at, operand.type)
    if not operand.type.is_known:
        reason = operand.type.absent(getattr(operand.type, "reason", ""))
        raise ExpressionError(operand.at, f"this cannot be read: {reason}", UNREADABLE)
    if not operand.type.computes or not 0 < size <= WORD:
        raise no_number(operand.at, operand.type, name)
    shift, width = operand.bits
    place = operand.place
    if place.memory is not None:
        read = replace(place.memory, read="integer", size=size, signed=signed)
        return _field_in(read, operand) if width else read
    word, into = place.word()
    if isinstance(word, str):
        raise ExpressionError(operand.at, unreadable(word, place), UNREADABLE)
    shift += 8 * into + word.bit_offset
    width = width or 8 * size
    if shift + width > 8 * WORD:
        raise ExpressionError(operand.at, f"this cannot be read: {SPREAD}", UNREADABLE)
    if not shift and width == 64:
        return replace(word, signed=signed)
    return replace(word, signed=signed, bit_offset=shift, bit_size=width)


def _field_in(read: Fetch, operand: Operand) -> Fetch:
    """Return what reads a bit field from memory: one of a packed record may reach beyond the bytes
    that a number of its type has."""
    shift, width = operand.bits
    needed = max(read.size, 1 << (-(-(shift + width) // 8) - 1).bit_length())
    if needed > WORD:
        what = "this cannot be read: it is spread over nine bytes"
        raise ExpressionError(operand.at, what, UNREADABLE)
    return replace(read, size=needed, bit_offset=shift, bit_size=width)


def is_string(operand: Operand) -> bool:
    """Return whether the value of ``operand`` is text."""
    return operand.type.is_text()


def is_address_of_network(operand: Operand) -> bool:
    """Return whether it is such an address, by itself or where another value leads."""
    return operand.type.is_written or (operand.start is not None and not is_string(operand))


def characters_in(located: Located) -> int:
    """Return how many characters an array of them has; 0 where it is something else."""
    if not isinstance(located, Operand) or located.start is not None:
        return 0
    first = located.type.element_at(0)
    return located.type.size if first is not None and first.type.is_char() else 0


def leads_to_start(type: Type) -> bool:
    """Return whether it is a reference to text, or to a pointer to it: it stands for that."""
    target = type.target if type.is_alias() else None
    return target is not None and (target.is_address or target.is_text())


def text_behind(type: Type) -> Type | None:
    """Return the type of text to which a pointer leads that is itself none: its bytes are no
    text."""
    target = type.target if type.is_address else None
    return target if target is not None and target.is_text() else None
