"""A type as a description of types has it: what recognisers of kinds look at.

DWARF (`lbtrace.dwarf.views`), the kernel's BTF (`lbtrace.btf.views`), what Go's compiler writes as
DWARF (`lbtrace.dwarf.go_views`) and the tables that Go's runtime keeps of arguments
(`lbtrace.plan.go.argument_views`) describe types in ways of their own. Each offers them as a
`View`, and nothing in `lbtrace.recognize` knows where one comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

FormOfType: TypeAlias = Literal[
    "base", "enumeration", "pointer", "member pointer", "record", "array", "nothing", "other",
    "string", "slice", "interface", "map or channel", "bits",
]  # fmt: skip
"""What a type is: a number or character (``base``); a pointer or reference; a pointer to a member
of a class; a struct, class or union (``record``); what has no values (``void``, ``nothing``). Go
has more, as its compiler does not describe them by their parts. Of ``bits`` only the ``size`` is
known. What is nothing of these is ``other``."""

Encoding: TypeAlias = Literal[
    "signed", "unsigned", "signed character", "unsigned character", "character", "boolean",
    "float", "complex", "",
]  # fmt: skip
"""What the bits of a base type are. A ``character`` is one of Unicode."""

SIGNED = frozenset({"signed", "signed character"})
INTEGERS = frozenset({"signed", "unsigned"})
CHARACTERS = frozenset({"signed character", "unsigned character", "character"})


DEEPEST, WIDEST = 10, 32
"""Records within records, and as many on each level, in which members are looked for."""


class View(Protocol):
    """A type of some ``form``. Typedefs and qualifiers are seen through, except in ``written``.

    ``name`` is its own name, without arguments of its namespace; ``written`` is the type as the
    source writes it. ``size`` is in bytes, 0 where it has none. ``language`` is ``c``, ``c++``,
    ``rust`` or ``go``. ``key`` identifies it among all types of the same description.
    """

    @property
    def key(self) -> int: ...
    @property
    def form(self) -> FormOfType: ...
    @property
    def name(self) -> str: ...
    @property
    def written(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_sized(self) -> bool:
        """Whether the size is known: a record that is only declared has none."""

    @property
    def definition(self) -> View | None:
        """Of what is only declared: the same with its size and parts, where that is found."""

    @property
    def language(self) -> str: ...

    @property
    def alignment(self) -> int:
        """In bytes, as the layout suggests it."""

    @property
    def encoding(self) -> Encoding:
        """Of a base type."""

    @property
    def is_x87(self) -> bool:
        """Whether this float of 16 bytes is one of the x87, with ten."""

    @property
    def is_reference(self) -> bool:
        """Whether a pointer leads to one value, always, and is written without a sign."""

    @property
    def leads_to_code(self) -> bool:
        """Whether a pointer leads to a function."""

    @property
    def is_polymorphic(self) -> bool:
        """Whether a class has virtual functions, or virtual bases: its objects begin with the
        address of a table of these (Itanium C++ ABI, 2.5)."""

    @property
    def target(self) -> View | None:
        """What a pointer leads to, or the elements of an array or a slice are; None where it is
        not known."""

    @property
    def counts(self) -> Sequence[int | None]:
        """Of an array, the number of elements in each dimension; None of an unknown one."""

    @property
    def is_open(self) -> bool:
        """Of an array: whether it is declared without a bound (C99, 6.7.2.1)."""

    @property
    def constants(self) -> Iterator[tuple[int, str]]:
        """Of an enumeration: the numbers that have names."""

    @property
    def constant_scopes(self) -> Sequence[str]:
        """Of an enumeration: see `Type.constant_scopes`. Empty where nothing asks for it."""

    @property
    def members(self) -> Iterator[MemberView]:
        """Of a record: its members and bases, static ones left out. Of an interface of Go the
        two words: ``_type`` or ``tab``, and ``data``."""

    @property
    def arguments(self) -> Sequence[View]:
        """The types that a template was given, packs flattened."""

    @property
    def variants(self) -> VariantPart | None:
        """Of a record: the part of which only one variant exists in a value."""


class PlainView:
    """What is true of most types: a view derives from it, and says what is different."""

    __slots__ = ()

    @property
    def is_sized(self) -> bool:
        return True

    @property
    def definition(self) -> View | None:
        return None

    @property
    def alignment(self) -> int:
        return 1

    @property
    def encoding(self) -> Encoding:
        return ""

    @property
    def is_x87(self) -> bool:
        return False

    @property
    def is_reference(self) -> bool:
        return False

    @property
    def leads_to_code(self) -> bool:
        return False

    @property
    def is_polymorphic(self) -> bool:
        return False

    @property
    def target(self) -> View | None:
        return None

    @property
    def counts(self) -> Sequence[int | None]:
        return ()

    @property
    def is_open(self) -> bool:
        return False

    @property
    def constants(self) -> Iterator[tuple[int, str]]:
        return iter(())

    @property
    def constant_scopes(self) -> Sequence[str]:
        return ()

    @property
    def members(self) -> Iterator[MemberView]:
        return iter(())

    @property
    def arguments(self) -> Sequence[View]:
        return ()

    @property
    def variants(self) -> VariantPart | None:
        return None


class MemberView(NamedTuple):
    """A member of a record, or a base: ``offset`` in bytes; of a bit field ``first_bit``, from the
    start of the record, and ``bits``. What is not ``placed`` lies at no fixed offset. Where the
    description does not say which bits it has, ``unknown`` says why."""

    name: str
    type: View
    offset: int
    first_bit: int = 0
    bits: int = 0
    is_base: bool = False
    placed: bool = True
    unknown: str = ""


class VariantPart(Struct, frozen=True):
    """The variants of a record: the place of the ``discriminant`` and its ``width`` in bytes, -1
    where there is none, and of each variant the name, the number by which it is known (None: the
    rest) and what it carries. ``whole`` is False where some of that could not be understood."""

    discriminant: int
    width: int
    cases: Sequence[tuple[str, int | None, View]]
    whole: bool = True


def find_parts(view: View, start: int, nesting: int) -> Iterator[tuple[int, MemberView]]:
    """Yield the members of a record and of the records within, with their offsets from
    ``start``."""
    for part in view.members:
        if not part.placed:
            continue
        at = start + part.offset
        yield at, part
        if nesting > 1 and part.type.form == "record":
            yield from find_parts(part.type, at, nesting - 1)


def find_named(view: View, names: Sequence[str]) -> list[tuple[int, MemberView]] | None:
    """Return the members with these names, with their offsets, of a record or of the records
    within, from outside to inside; None where one is missing. What a type was made for may have
    members with the same names, but those lie deeper."""
    found: dict[str, tuple[int, MemberView]] = {}
    level = [(0, view)]
    for _ in range(DEEPEST):
        inner: list[tuple[int, View]] = []
        for start, record in level:
            for part in record.members:
                if not part.placed:
                    continue
                found.setdefault(part.name, (start + part.offset, part))
                if part.type.form == "record":
                    inner.append((start + part.offset, part.type))
        if all(name in found for name in names):
            return [found[name] for name in names]
        level = inner[:WIDEST]
    return None


def parts_by_name(view: View, nesting: int) -> dict[str, tuple[int, MemberView]]:
    """Return the members of a record and of the records within, ``nesting`` deep, by name: of those
    with the same name the last."""
    return {part.name: (at, part) for at, part in find_parts(view, 0, nesting)}
