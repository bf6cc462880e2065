"""The tree that an expression is parsed to. ``at`` is the position of its character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.errors import Understood, UsageError, option
from lbtrace.model import Column, Type


class Number(Struct, frozen=True):
    """An integer, a character's code, a time in ns, or a ``real`` number."""

    at: int
    value: int | float
    form: Literal["decimal", "hexadecimal", "character", "time", "real"] = "decimal"


class Quoted(Struct, frozen=True):
    """Text between quotation marks."""

    at: int
    value: bytes


class Name(Struct, frozen=True):
    """A parameter, ``argN``, ``retval``, ``pid``, ``tid``, ``comm``, ``duration`` or a constant."""

    at: int
    name: str


class Register(Struct, frozen=True):
    """A register's content."""

    at: int
    name: str


class TextOf(Struct, frozen=True):
    """``str`` and ``buf``: text at an address, up to a NUL or of a length, or any ``raw`` bytes."""

    at: int
    start: Node
    length: Node | None = None
    raw: bool = False


class After(Struct, frozen=True):
    """A value of the entry, through which memory is read at the return."""

    at: int
    inner: Node


class LengthOf(Struct, frozen=True):
    """``len``: how many elements or bytes a value has."""

    at: int
    inner: Node


class NamedType(Struct, frozen=True):
    """A type of the program, or with ``stars`` a pointer that leads to it."""

    at: int
    name: str
    stars: int = 0


class Cast(Struct, frozen=True):
    """A value taken for one of another type."""

    at: int
    type: Type | NamedType
    inner: Node


class Dereference(Struct, frozen=True):
    """What a pointer leads to, ``index`` elements on: ``p[n]`` is written as a ``subscript``."""

    at: int
    inner: Node
    index: int = 0
    subscript: bool = False


class Field(Struct, frozen=True):
    """A member of a record, or a property, which may be ``called`` as in C++."""

    at: int
    inner: Node
    name: str
    called: bool = False


class Sum(Struct, frozen=True):
    """Two values added, or the right one ``taken`` from the left one."""

    at: int
    left: Node
    right: Node
    taken: bool = False


Sign: TypeAlias = Literal["*", "/", "%", "<<", ">>", "&", "^", "|"]


class Binary(Struct, frozen=True):
    """Two values combined as the ``sign`` of C says."""

    at: int
    sign: Sign
    left: Node
    right: Node


Node: TypeAlias = (
    Number
    | Quoted
    | Name
    | Register
    | TextOf
    | After
    | LengthOf
    | Cast
    | Dereference
    | Field
    | Sum
    | Binary
)

Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "startswith", "lacks"]
"""``lacks`` is what ``not … startswith …`` becomes."""


SWAPPED: dict[Operator, Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""What holds where both sides change places."""


class Comparison(Struct, frozen=True):
    """Two values compared; as the ``contrary`` of another comparison it holds wherever that does
    not."""

    at: int
    operator: Operator
    left: Node
    right: Node
    contrary: bool = False


class Junction(Struct, frozen=True):
    """Conditions of which all (``and``) or one (``or``) must hold."""

    kind: Literal["and", "or"]
    parts: tuple[Test, ...]


class Negation(Struct, frozen=True):
    """A condition that must not hold."""

    inner: Test


Test: TypeAlias = Comparison | Junction | Negation


class ArgExpression(Struct, frozen=True):
    """An ``--arg``: what to show, and under which name."""

    source: str
    name: str
    node: Node


AROUND = 500
"""Characters of an expression that an error shows on either side of what is wrong."""


class ExpressionError(Exception):
    """What is wrong with an expression, at which of its characters, and what to write instead.
    ``lacks_name``: nothing in the function has the name that stands there."""

    def __init__(self, at: int, what: str, hint: str, *, lacks_name: bool = False) -> None:
        super().__init__(what)
        self.lacks_name = lacks_name
        self.at = at
        self.what = what
        self.hint = hint

    def error(self, name: str, source: str) -> UsageError:
        """Return the error for the user about the option ``name``, with a mark under the
        character."""
        shown, at = source, self.at
        if len(source) > 2 * AROUND:
            begin = max(0, at - AROUND)
            shown = "…" * (begin > 0) + source[begin : at + AROUND]
            shown += "…" * (at + AROUND < len(source))
            at += (begin > 0) - begin
        error = UsageError(
            f"{option(name)}: {self.what}", self.hint, detail=f"  {shown}\n  {' ' * at}^"
        )
        error.understood = Understood(name != "where", not self.lacks_name, self.at)
        return error


class Request(Struct, frozen=True):
    """The user's request: values to show instead of all, or that the kernel ``aggregates``, and a
    filter, of calls that failed (``errors``), which exceptions may leave (``throws``). It
    aggregates ``by`` values, ``measured`` others for ``columns``, and knows each call's process and
    function, if these are ``grouped`` by."""

    wanted: tuple[ArgExpression, ...] = ()
    test: Test | None = None
    source: str = ""
    aggregates: bool = False
    errors: bool = False
    throws: bool = False
    by: tuple[ArgExpression, ...] = ()
    measured: tuple[ArgExpression, ...] = ()
    columns: tuple[Column, ...] = ()
    grouped: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[ArgExpression, ...]:
        """All values that it names, but for those of the filter."""
        return (*self.wanted, *self.by, *self.measured)

    @property
    def needs_return(self) -> bool:
        """Whether it is about what is known only when a call returns."""
        asked = (self.named, self.test)
        return self.errors or _names(asked, AT_RETURN) or has_after(asked)

    @property
    def selects_any_call(self) -> bool:
        """Whether the filter is only about what calls of every kind have."""
        names = names_in(self.test)
        return names is not None and names <= OF_EVERY_CALL

    @property
    def names_times_off_cpu(self) -> bool:
        """Whether it is about those, or values of the functions that are called so."""
        return _names(self.test, TIMES_OFF_CPU)


def parts_of(tree: object) -> Iterator[object]:
    """Yield ``tree`` and all that is in it."""
    yield tree
    parts: Iterable[object] = tree if isinstance(tree, tuple) else ()
    if isinstance(tree, Struct):
        parts = [getattr(tree, field) for field in tree.__struct_fields__]
    for part in parts:
        yield from parts_of(part)


def names_in(tree: object) -> set[str] | None:
    """Return the names in ``tree``; None where it also asks for registers."""
    parts = [*parts_of(tree)]
    if any(isinstance(part, Register) for part in parts):
        return None
    return {part.name for part in parts if isinstance(part, Name)}


def written(node: Node) -> str:
    """Return the value that ``node`` names as one writes it; empty where it is computed."""
    match node:
        case Name():
            return node.name
        case After() if name := written(node.inner):
            return f"after({name})"
        case Field(inner=Dereference(inner=inner, subscript=False)) if name := written(inner):
            return f"{name}->{spelled(node.name)}"
        case Field() if name := written(node.inner):
            return f"{name}.{spelled(node.name)}"
        case Dereference() if name := written(node.inner):
            return f"{name}[{node.index}]" if node.subscript else f"(*{name})"
    return ""


def spelled(member: str) -> str:
    """Return how one writes the name of a member: ``0`` for that of a tuple, ``__0``."""
    number = member.removeprefix("__")
    place = number.isascii() and number.isdigit() and (number == "0" or number[0] != "0")
    return number if place else member


def qualifies(tree: object) -> bool:
    """Return whether a name in ``tree`` is qualified, as constants of enumerations may be."""
    return any("::" in part.name for part in parts_of(tree) if isinstance(part, Name))


def member_names(tree: object) -> Iterator[str]:
    """Yield the names of all members in ``tree``."""
    return (part.name for part in parts_of(tree) if isinstance(part, Field))


def has_after(tree: object) -> bool:
    """Return whether ``tree`` reads what a call leaves behind its pointers."""
    return any(isinstance(part, After) for part in parts_of(tree))


AT_RETURN = ("retval", "duration")

TIMES_OFF_CPU = ("blocked", "runnable")
"""Names of what is known of every return where it is measured, and no value of the function is
called so."""

TIMES = ("duration", *TIMES_OFF_CPU)

OF_EVERY_CALL = frozenset({*AT_RETURN, *TIMES_OFF_CPU, "pid", "tid", "comm"})
"""Names of what calls have, whatever is called."""


def _names(tree: object, names: tuple[str, ...]) -> bool:
    """Whether one of ``names`` occurs anywhere in ``tree``."""
    return any(part.name in names for part in parts_of(tree) if isinstance(part, Name))
