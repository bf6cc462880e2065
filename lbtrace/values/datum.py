"""What values are decoded to, and how each format has them.

A decoded value is a number, a truth value, None or a `Form`. (The types it is decoded by are in
`lbtrace.values.base`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from lbtrace.values.notation import argument_text, encodable, members_text, unreadable_text

Syntax: TypeAlias = Literal["", "string", "character", "symbol", "function", "reference"]
"""What a value would be in a language with syntax for it: ``"string"`` is a `Text`, of which
``data`` are the bytes, ``"reference"`` a `Referent`, whose ``value`` counts; the rest are
subclasses of ``str``. ``""`` is none of these."""

ColumnKind: TypeAlias = Literal["integer", "address", "truth", "text", "nested", "reference"]
"""What `Form.column` yields: ``"address"`` is an unsigned integer, ``"nested"`` what Arrow finds
in it, a ``"reference"`` the same or, of a pointer that leads nowhere, an address."""


class Form:
    """What a value is decoded to that is no Python number: how each format writes it.

    Only ``text`` must be given. A format for which a form says nothing has its text.
    """

    __slots__ = ()

    syntax: ClassVar[Syntax] = ""
    """What Racket writes it as."""

    column_kind: ClassVar[ColumnKind] = "text"
    """What column of a table it goes into."""

    is_plain: ClassVar[bool] = False
    """Whether JSON has its text and nothing else, in which no character is escaped."""

    def text(self) -> str:
        """As the source would write it."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()

    def json(self) -> Any:
        """Return what JSON has for it."""
        return self.text()

    def label(self) -> str:
        """Return what viewers show of it, who write quotation marks themselves."""
        return self.text()

    @property
    def is_whole(self) -> bool:
        """Whether JSON says all of it: else `lacks` is asked for the rest."""
        return False

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return what the JSON does not say, of the value and its parts, by their JSON Pointers,
        which begin with ``path``: ``{"length": 200}``."""
        return iter(())

    def column(self) -> Any:
        """Return what a table of Arrow has for it. Raises `Partial` where it was not read whole."""
        return self.text()

    def returned(self) -> Datum:
        """Return what the call has returned whose result it is."""
        return self

    def filled(self) -> Sequence[Argument]:
        """Return what else is known of that call since its end, as arguments: what it has filled,
        and what could not be read before."""
        return ()

    def with_content(self, content: Datum) -> Datum:
        """Return the value of an argument that has led to ``content``."""
        return content

    def span(self) -> float | None:
        """Return how many nanoseconds a span of time takes; None of other values."""
        return None

    def expression(self) -> tuple[str, Sequence[Datum], int] | None:
        """Return its head, its parts and how many more there are, where it is made of parts: what a
        Lisp writes in parentheses."""
        return None


class WrittenNumber(int, Form):
    """A number whose text is not decimal; JSON and columns have the number."""

    __slots__ = ()

    column_kind = "integer"

    __str__ = int.__repr__

    @property
    def is_whole(self) -> bool:
        return True

    def json(self) -> int:
        return int(self)

    def column(self) -> int:
        return int(self)


class Token(str, Form):
    """A form that is one piece of text: a character, the name of a constant or a function."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        return True

    def json(self) -> str:
        return self

    def column(self) -> str:
        return encodable(self)


class Partial(Exception):
    """A value was not read whole, which Arrow's lists and structs could not say."""


Datum: TypeAlias = bool | int | float | str | Form | None
"""A decoded value: ``int``, ``float``, ``bool``, or a `Form` (`Address`, `Char`, `Constant`,
`Symbol`, `Text`, `Fields`, `Elements`, `Variant`, `Referent`, `Unreadable`, ...); None is the
result of a function without one."""


NO_REASON = "type or location unknown"
"""What is said of a value without a reason where it is not shown as ``?``."""


class Unreadable(Form, Struct, frozen=True):
    """Stands for a value that could not be read. ``reason`` may be empty."""

    reason: str = ""

    def text(self) -> str:
        return unreadable_text(self.reason)

    def json(self) -> Any:
        return None

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        yield path, {"unreadable": self.reason or NO_REASON}

    def column(self) -> Any:
        return None


UNUSED = Unreadable("not used")
"""Stands for an argument at which the called one does not look."""


class Argument(Struct, frozen=True):
    """An argument of a call, or a member of a record: ``name`` and ``value``."""

    name: str
    value: Datum

    def __str__(self) -> str:
        return argument_text(self)


UNDECODABLE = Unreadable("cannot be decoded")
"""Stands for a value that the plan of a damaged capture describes as none can be."""


FAULT = Unreadable("fault")
"""A value whose memory the kernel program could not read."""


NOT_READ = Unreadable("not read")
"""Why a part of a value cannot be shown that lies beyond the fetched bytes."""


def whole(composed: Datum, parts: Sequence[Datum]) -> Datum:
    """``composed``, or why none of its ``parts`` could be read."""
    first = parts[0]
    if isinstance(first, Unreadable) and all(part == first for part in parts):
        return first
    return composed


def json_of(datum: Datum) -> Any:
    """Return what JSON has for a value: records are objects, or arrays where nothing in them has a
    name; a pointer that was followed is what it leads to."""
    if isinstance(datum, Form):
        return datum.json()
    if isinstance(datum, float) and not isfinite(datum):
        return repr(datum)  # JSON has no such numbers
    return datum


def lacks_of(datum: Datum, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """See `Form.lacks`."""
    return datum.lacks(path) if isinstance(datum, Form) else iter(())


def column_of(datum: Datum) -> Any:
    """See `Form.column`."""
    if isinstance(datum, Form):
        return datum.column()
    return encodable(datum) if isinstance(datum, str) else datum


def json_token(name: str) -> str:
    """Return a name in a JSON Pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


class Members(Form):
    """A value that is made of named members: ``value["key"]`` is that of a member, and
    ``dict(value)`` all by name."""

    __slots__ = ()

    column_kind = "nested"

    fields: tuple[Argument, ...] = ()
    more: int = 0

    def __getitem__(self, key: str | int) -> Datum:
        return find_value(self.fields, key)

    def __iter__(self) -> Iterator[Argument]:
        return iter(self.fields)

    def keys(self) -> list[str]:
        """Return the names of the members, each different: see `keys_of`."""
        return keys_of(member.name for member in self.fields)

    def inside(self) -> str:
        """Return the members as text, without what encloses them."""
        return members_text(self.fields, self.more)

    def are_named(self) -> bool:
        """Return whether any member has a name."""
        return any(field.name for field in self.fields)

    def json(self) -> Any:
        values = [json_of(field.value) for field in self.fields]
        if not self.fields or self.are_named():
            return dict(zip(self.keys(), values, strict=True))
        return values

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.more:
            yield path, {"more": self.more}
        keys = self.keys() if self.are_named() else map(str, range(len(self.fields)))
        for key, field in zip(keys, self.fields, strict=True):
            yield from lacks_of(field.value, f"{path}/{json_token(key)}")


def find_value(named: Sequence[Argument], key: str | int) -> Datum:
    """Return the value of the argument or member called ``key`` (as `keys_of` calls them; ``.``
    and ``->`` are one), or of that number. Raises `KeyError` or `IndexError`."""
    if not isinstance(key, str):
        return named[key].value
    for each in named:
        if each.name == key:
            return each.value
    names = keys_of(each.name for each in named)
    if key not in names and ("." in key or "->" in key):  # which is one's own way to write it
        plain = [name.replace("->", ".") for name in names]
        key = names[plain.index(asked)] if (asked := key.replace("->", ".")) in plain else key
    if key not in names:
        raise KeyError(f"nothing is called {key!r}; there is {', '.join(names) or 'none'}")
    return find_value(named, names.index(key))


def keys_of(names: Iterable[str]) -> list[str]:
    """Return ``names`` as the keys of a mapping, each different: C and C++ know several parameters
    and members without a name, Go several ``_``. The second is called ``#2`` after it."""
    seen: dict[str, int] = {}
    keys = []
    for name in names:
        seen[name] = count = seen.get(name, 0) + 1
        keys.append(name if count == 1 else f"{name}#{count}")
    return keys
