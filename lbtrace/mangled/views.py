"""Types by the text that a demangled name has of them.

A class is known by its name only, but for those of the standard library (`layouts.py`): how it is
passed is unknown where a function takes it by value, as is whether it is an enumeration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lbtrace.elf.cpp_names import shorten
from lbtrace.elf.demangle import split_top_level
from lbtrace.mangled.layouts import Layout, find_layout
from lbtrace.recognize.view import Encoding, FormOfType, MemberView, PlainView

WORD = 8
"""Bytes of a pointer, and of a ``long``: both machines are LP64."""

BASE_TYPES: dict[str, tuple[int, Encoding]] = {
    "bool": (1, "boolean"),
    "char": (1, "signed character"),
    "signed char": (1, "signed character"),
    "unsigned char": (1, "unsigned character"),
    "short": (2, "signed"),
    "unsigned short": (2, "unsigned"),
    "int": (4, "signed"),
    "unsigned int": (4, "unsigned"),
    "long": (8, "signed"),
    "unsigned long": (8, "unsigned"),
    "long long": (8, "signed"),
    "unsigned long long": (8, "unsigned"),
    "__int128": (16, "signed"),
    "unsigned __int128": (16, "unsigned"),
    "float": (4, "float"),
    "double": (8, "float"),
    "long double": (16, "float"),
    "__float128": (16, "float"),
    "float complex": (8, "complex"),
    "double complex": (16, "complex"),
    "wchar_t": (4, "signed"),
    "char8_t": (1, "unsigned character"),
    "char16_t": (2, "character"),
    "char32_t": (4, "character"),
}
"""Their sizes and what their bits are (System V psABI of x86-64, table 3.1; AAPCS64, 10.1)."""

QUALIFIER = re.compile(r"\s*\b(const|volatile|restrict)$")

DECLARATOR = re.compile(r" \((.*?)(\*|&&?)( const| volatile)*\)( ?[(\[])")
"""Of a pointer to a function, an array or a member function: ``int (A::*)(int)``."""

ANONYMOUS, PLACEHOLDER = "(anonymous namespace)", "_anonymous_"
"""What demanglers write of namespaces without names has brackets that mean nothing."""

NULLPTR = "std::nullptr_t"


class Shape(Struct, frozen=True):
    """What a text tells of a type: the text of its ``target``, and those of the arguments of its
    template."""

    form: FormOfType
    size: int = 0
    encoding: Encoding = ""
    target: str = ""
    is_reference: bool = False
    leads_to_code: bool = False
    arguments: tuple[str, ...] = ()
    layout: Layout | None = None


def read(text: str) -> Shape:  # noqa: PLR0911 - a return for each case
    """Return what ``text``, without qualifiers, tells of a type."""
    if text in BASE_TYPES:
        return Shape("base", *BASE_TYPES[text])
    if text == "void":
        return Shape("nothing")
    if text == NULLPTR:
        return Shape("pointer", WORD)
    if text.endswith("::*"):
        return Shape("member pointer", WORD)
    if text.endswith("&"):
        return Shape("pointer", WORD, target=text.rstrip("&"), is_reference=True)
    if text.endswith("*"):
        return Shape("pointer", WORD, target=text[:-1])
    plain = text.replace(ANONYMOUS, PLACEHOLDER)
    if declarator := DECLARATOR.search(plain):
        owner, sign, _, after = declarator.groups()
        if owner.endswith("::"):
            return Shape("member pointer", 2 * WORD, leads_to_code=True)
        code = "(" in after
        return Shape("pointer", WORD, is_reference="&" in sign and not code, leads_to_code=code)
    if "(" in plain and not text.endswith(">"):
        return Shape("other")  # a function, a class without a name in one
    return _read_class(text)


def _read_class(text: str) -> Shape:
    """What is known of a class or an enumeration by its name."""
    *scopes, last = split_top_level(text, "::")
    name, _, inside = last.partition("<")
    arguments = tuple(each for each in split_top_level(inside[:-1], ",") if each)
    layout = find_layout("::".join((*scopes, name)), [shorten(each) for each in arguments])
    if layout is not None and layout.is_number:
        return Shape("base", layout.size, "unsigned")
    size = layout.size if layout else 0
    if layout and not size:
        size = read(arguments[0]).size
    return Shape("record", size, arguments=arguments, layout=layout)


class NamedView(PlainView):
    """A type by its text: a `View`. A long double may be one of the ``x87``."""

    __slots__ = ("_bare", "_shape", "_text", "_x87")

    def __init__(self, text: str, *, x87: bool) -> None:
        self._text = self._bare = text.strip()
        while self._bare != (bare := QUALIFIER.sub("", self._bare)):
            self._bare = bare
        self._x87, self._shape = x87, read(self._bare)

    def _of(self, text: str) -> NamedView:
        return NamedView(text, x87=self._x87)

    @property
    def key(self) -> int:
        return hash(self._text)

    @property
    def form(self) -> FormOfType:
        return self._shape.form

    @property
    def name(self) -> str:
        return split_top_level(self._bare, "::")[-1]

    @property
    def written(self) -> str:
        """As debug information has it: ``const char *``."""
        qualifiers = self._text[len(self._bare) :].split()
        if self.target is None:
            return " ".join((*qualifiers, shorten(self._bare)))
        target = self.target.written
        between = "" if target.endswith(("*", "&")) else " "
        sign = self._bare[len(self._bare.rstrip("&")) :] or "*"
        return f"{target}{between}{sign}{' '.join(qualifiers)}"

    @property
    def size(self) -> int:
        return self._shape.size

    @property
    def is_sized(self) -> bool:
        return self.form != "record" or self._shape.layout is not None

    @property
    def language(self) -> str:
        return "c++"

    @property
    def alignment(self) -> int:
        return min(self.size, 2 * WORD) or 1

    @property
    def encoding(self) -> Encoding:
        return self._shape.encoding

    @property
    def is_x87(self) -> bool:
        return self._x87 and self._bare == "long double"

    @property
    def is_reference(self) -> bool:
        return self._shape.is_reference

    @property
    def leads_to_code(self) -> bool:
        return self._shape.leads_to_code

    @property
    def target(self) -> NamedView | None:
        return self._of(self._shape.target) if self._shape.target else None

    @property
    def arguments(self) -> Sequence[NamedView]:
        return [*map(self._of, self._shape.arguments)]

    @property
    def members(self) -> Iterator[MemberView]:
        layout = self._shape.layout
        for name, offset, text in layout.members if layout else ():
            yield MemberView(name, self._of(text.format(*self._shape.arguments)), offset)

    @property
    def passes_address(self) -> bool:
        """Whether an address is passed of what a function takes by value: of a class with a copy
        constructor or a destructor of its own (Itanium C++ ABI, 3.1.1)."""
        layout = self._shape.layout
        return layout is not None and not layout.by_value
