"""The tree that an expression is parsed to. ``at`` is the position of its character."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.errors import UsageError
from lbtrace.model import Type


class Number(Struct, frozen=True):
    """An integer, a character's code, or a time in ns."""

    at: int
    value: int


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
    """``str`` and ``buf``: text at an address, up to a NUL or of a length."""

    at: int
    start: Node
    length: Node | None = None


class Cast(Struct, frozen=True):
    """A value taken for one of another type."""

    at: int
    type: Type
    inner: Node


class Dereference(Struct, frozen=True):
    """What a pointer leads to, ``index`` elements on."""

    at: int
    inner: Node
    index: int = 0


class Field(Struct, frozen=True):
    """A member of a record."""

    at: int
    inner: Node
    name: str


class Sum(Struct, frozen=True):
    """Two values added."""

    at: int
    left: Node
    right: Node


class Product(Struct, frozen=True):
    """Two values multiplied."""

    at: int
    left: Node
    right: Node


Node: TypeAlias = (
    Number | Quoted | Name | Register | TextOf | Cast | Dereference | Field | Sum | Product
)

Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "startswith", "lacks"]
"""``lacks`` is what ``not … startswith …`` becomes."""


class Comparison(Struct, frozen=True):
    """Two values compared."""

    at: int
    operator: Operator
    left: Node
    right: Node


class Junction(Struct, frozen=True):
    """Conditions of which all (``and``) or one (``or``) must hold."""

    kind: Literal["and", "or"]
    parts: tuple[Test, ...]


class Negation(Struct, frozen=True):
    """A condition that must not hold."""

    inner: Test


Test: TypeAlias = Comparison | Junction | Negation


class Wanted(Struct, frozen=True):
    """An ``--arg``: what to show, and under which name."""

    source: str
    name: str
    node: Node


class Unclear(Exception):
    """What is wrong with an expression, and at which of its characters."""

    def __init__(self, at: int, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.at = at
        self.what = what
        self.hint = hint

    def error(self, option: str, source: str) -> UsageError:
        """The error for the user, with a mark under the character."""
        hint = self.hint or "write for example: str(arg0, arg1), node->next.key, arg1 > 5"
        return UsageError(f"{option}: {self.what}", hint, detail=f"  {source}\n  {' ' * self.at}^")


class Request(Struct, frozen=True):
    """What the user asked for: values to show instead of all, and a filter."""

    wanted: tuple[Wanted, ...] = ()
    test: Test | None = None
    source: str = ""
