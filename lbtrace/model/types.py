"""The types of values."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Integer(Struct, frozen=True, tag="integer"):
    """An integer of ``size`` bytes, at most 16."""

    name: str
    size: int
    signed: bool


class Word(Integer, frozen=True, tag="word"):
    """Bytes of which nobody tells the type: shown in hexadecimal where they look like an
    address of the program's memory, which unsigned ones do unless they are too small."""


class Character(Struct, frozen=True, tag="character"):
    """A character of ``size`` bytes, shown as the source writes it: ``'a'``."""

    name: str
    size: int
    signed: bool


class Boolean(Struct, frozen=True, tag="boolean"):
    """A truth value of ``size`` bytes."""

    name: str
    size: int


class Pointer(Struct, frozen=True, tag="pointer"):
    """An address, shown in hexadecimal. ``name`` is the whole type: ``char *``.

    ``target`` is the type of what lies there, as far as it was looked into.
    ``null`` is the language's word for the address 0. What refers to its target
    without being written as a pointer is a ``reference``.
    Where ``code`` lies there, it is shown by the name of the function.
    """

    name: str
    size: int = 8
    target: Type | None = None
    null: str = ""
    reference: bool = False
    code: bool = False


class Float(Struct, frozen=True, tag="float"):
    """A floating-point number of ``size`` bytes: IEEE 754 binary16, 32, 64 or
    128, or with 10 bytes the x87's (``long double`` on x86-64)."""

    name: str
    size: int


class Enumeration(Struct, frozen=True, tag="enumeration"):
    """An integer whose ``values`` have names."""

    name: str
    size: int
    signed: bool
    values: tuple[tuple[int, str], ...] = ()


class Member(Struct, frozen=True):
    """A member of a record: ``offset`` in bytes from its start.

    A bit field has a ``bit_size``; it begins ``bit_offset`` bits above the
    lowest bit of the byte at ``offset``.
    """

    name: str
    type: Type
    offset: int
    bit_offset: int = 0
    bit_size: int = 0


class Record(Struct, frozen=True, tag="record"):
    """A struct, union or class. ``members`` may be empty where nobody looked."""

    name: str
    size: int
    members: tuple[Member, ...] = ()


class Array(Struct, frozen=True, tag="array"):
    """``count`` elements, one behind the other."""

    name: str
    size: int
    element: Type
    count: int


class String(Struct, frozen=True, tag="string"):
    """Text, however it is kept. Where ``pointer`` and ``length`` are not
    negative it is a record with those two words, at these offsets. With ``short``
    (libc++) the lowest bit of the record says that it is so; else it is the text
    itself, behind a byte with twice its length."""

    name: str
    size: int = 8
    pointer: int = -1
    length: int = -1
    short: bool = False


class Vector(Struct, frozen=True, tag="vector"):
    """A record that keeps elements elsewhere: ``pointer``, ``length`` and ``end``
    are the offsets of the address of the first, of their number, and of the
    address behind the last; one of the last two is -1."""

    name: str
    size: int
    element: Type
    step: int
    pointer: int
    length: int = -1
    end: int = -1


class Case(Struct, frozen=True):
    """A variant of an enumeration that carries values, and the discriminants by
    which it is known; none where it is what is left."""

    name: str
    values: tuple[int, ...]
    record: Type


class Variants(Struct, frozen=True, tag="variants"):
    """An enumeration of Rust whose ``cases`` carry values. ``discriminant`` tells
    which one it is; None where there is only one."""

    name: str
    size: int
    discriminant: Member | None
    cases: tuple[Case, ...]


class Slice(Struct, frozen=True, tag="slice"):
    """A slice of Go: where its elements are, their number, and how many have room."""

    name: str
    element: Type
    size: int = 24


class Interface(Struct, frozen=True, tag="interface"):
    """An interface value of Go: what tells its dynamic type, and the value.

    ``static`` says that there is no method table in between (``any``).
    """

    name: str
    static: bool
    size: int = 16


class Void(Struct, frozen=True, tag="void"):
    """The result of a function that returns nothing."""


class Opaque(Struct, frozen=True, tag="opaque"):
    """A type lbtrace knows by name but cannot show yet; its value is ``?``."""

    name: str


Type: TypeAlias = (
    Integer
    | Word
    | Character
    | Boolean
    | Pointer
    | Float
    | Enumeration
    | Record
    | Array
    | String
    | Vector
    | Variants
    | Slice
    | Interface
    | Void
    | Opaque
)
"""The type of a value, as a tagged union: a new kind of type is a new struct."""

LONG = Integer("long", 8, True)

UNKNOWN = Word("long", 8, True)
"""What is assumed where no debug information tells the type."""
