"""Pointers and references, and what they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.text import clean
from lbtrace.values.base import (
    MARK,
    Decoder,
    Fetched,
    Member,
    NativeForm,
    NumberType,
    Probe,
    Reader,
    Type,
    Value,
)
from lbtrace.values.datum import Datum, Form, Token, Unreadable, column_of, json_of, lacks_of
from lbtrace.values.notation import text, unreadable_text

NULLPTR, NIL = "nullptr", "nil"

TABLE, TABLE_OF = "table of virtual functions", "vtable for "
"""The name of the part of a value that is the address of such a table; and what demanglers write
before the class whose it is."""


class Address(int, Form):
    """The value of a pointer: a number, written in hexadecimal."""

    __slots__ = ()

    column_kind = "address"
    is_plain = True

    @property
    def is_whole(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"{self:#x}"

    def __repr__(self) -> str:
        return f"Address({self:#x})"

    def text(self) -> str:
        return f"{self:#x}"

    def column(self) -> int:
        return self

    @property
    def note(self) -> str:
        """What is known besides, as text."""
        return ""

    def beside(self, number: float) -> int:
        """Return the number that it is where it is compared with a ``number``."""
        return self

    def with_content(self, content: Datum) -> Datum:
        return Referent(self, content)

    def with_facts(self, **facts: str | int) -> Known:
        """Return it as one of which more is known."""
        return Known(self, facts)


class Known(Address):
    """The value of a pointer of which more is known: ``facts``, the ``class`` of the object to
    which it leads, and the ``use_count`` of one that shares it with others."""

    is_plain = False
    facts: dict[str, str | int]

    def __new__(cls, address: int, facts: dict[str, str | int]) -> Known:
        made = super().__new__(cls, address)
        made.facts = facts
        return made

    def __reduce__(self) -> tuple[type[Known], tuple[int, dict[str, str | int]]]:
        return Known, (int(self), self.facts)

    @property
    def is_whole(self) -> bool:
        return False

    @property
    def note(self) -> str:
        words = {"use_count": "use "}
        shown = (f"{words.get(name, '')}{fact}" for name, fact in self.facts.items())
        return f" ({clean(', '.join(shown))})"

    def with_facts(self, **facts: str | int) -> Known:
        return Known(self, {**self.facts, **facts})

    def text(self) -> str:
        return f"{self:#x}{self.note}"

    def json(self) -> str:
        return f"{self:#x}"

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        yield path, self.facts

    def expression(self) -> tuple[str, Sequence[Datum], int]:
        numbers = [fact for fact in self.facts.values() if isinstance(fact, int)]
        return str(self.facts.get("class", "shared")), [Address(self), *numbers], 0


class Unfollowed(Address):
    """The value of a pointer that would have been followed, as those to texts always are, but was
    not, for a ``reason``."""

    is_plain = False
    reason: str

    def __new__(cls, address: int, reason: str) -> Unfollowed:
        made = super().__new__(cls, address)
        made.reason = reason
        return made

    def __reduce__(self) -> tuple[type[Unfollowed], tuple[int, str]]:
        return Unfollowed, (int(self), self.reason)

    @property
    def is_whole(self) -> bool:
        return False

    def text(self) -> str:
        return f"{self:#x} {unreadable_text(self.reason)}"

    def json(self) -> str:
        return f"{self:#x}"

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        yield path, {"unfollowed": self.reason}


class Symbol(Token):
    """The value of a pointer to code: the name of the function."""

    __slots__ = ()

    syntax = "function"

    def text(self) -> str:
        return clean(self)


class Referent(Form, Struct, frozen=True):
    """The value of a pointer that was followed: the ``address`` where it leads, and the
    ``value`` there, whose members and elements are also found by its own index."""

    address: Address
    value: Datum

    syntax = "reference"
    column_kind = "reference"

    def __getitem__(self, key: str | int) -> Datum:
        parts: Any = self.value
        if isinstance(parts, str) or not (
            isinstance(parts, Form) and hasattr(parts, "__getitem__")
        ):
            raise TypeError(f"what lies at {self.address} has no members")
        found: Datum = parts[key]
        return found

    def text(self) -> str:
        return f"&{text(self.value)}{self.address.note}"

    def json(self) -> Any:
        return json_of(self.value)

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        own = dict(self.address.lacks(path)).get(path, {})
        for at, lack in lacks_of(self.value, path):
            yield at, {**own, **lack} if at == path else lack
            own = {} if at == path else own
        if own:
            yield path, own

    def column(self) -> Any:
        return column_of(self.value)


class Pointer(NumberType, Struct, frozen=True, tag="pointer"):
    """An address, shown in hexadecimal. ``name`` is the whole type: ``char *``.

    ``target`` is the type of what lies there, as far as it was looked into.
    ``null`` is the language's word for the address 0. What refers to its target
    without being written as a pointer is a ``reference``. References of C++ and Rust
    lead to a ``single`` value, never to the first of several.
    Where ``code`` lies there, it is shown by the name of the function. Objects there begin with the
    address of a table of virtual functions, by which their class is known, if they are
    ``polymorphic``.
    """

    name: str
    size: int = 8
    target: Type | None = None
    null: str = ""
    reference: bool = False
    code: bool = False
    single: bool = False
    polymorphic: bool = False

    computes = True
    is_address = True
    is_composed_alike = True

    def is_handle(self) -> bool:
        return self.reference

    def is_alias(self) -> bool:
        return self.single

    def bare(self) -> Pointer:
        return replace(self, target=None)

    def without_class(self) -> Pointer:
        return replace(self, polymorphic=False) if self.polymorphic else self

    def is_text(self) -> bool:
        """Return whether it leads to characters of one byte: a C string. What a reference leads to
        is one character."""
        return not self.single and self.target is not None and self.target.is_char()

    def is_flat(self) -> bool:
        return not (self.is_text() or self.reference)

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        return [(self.null, Member("", self, 0), 0)] if self.null == NIL else []

    def native_form(self) -> NativeForm:
        if self.code:
            return "symbol"
        return "" if self.null else "address"

    def mark(self, number: int) -> tuple[str, Datum]:
        if self.code:
            return symbol_mark(number), Symbol(symbol_mark(number))
        address = Address(int(f"{MARK}00000000", 16) + number)
        return f"{address:#x}", address

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1
        if not self.null:
            return lambda raw: Address(raw & mask)
        from lbtrace.values.enumeration import Constant  # imported here because few need it

        null = Constant(self.null)
        if self.null == NULLPTR:
            return lambda raw: null  # whatever lies there (C++, [conv.lval])
        return lambda raw: Address(raw & mask) if raw & mask else null

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """A pointer that leads nowhere is still an address, whatever members nobody had to read."""
        if value.members[-1].name == TABLE:
            return self._object_reader(value, probe)
        address = probe.reader(replace(value, members=()))
        target = probe.reader(value.members[0])
        reference, there = self.reference, _slots(value.members)

        def read(fetched: Fetched) -> Datum:
            where = address(fetched)
            if there and fetched.faults & there == there:
                return where
            what = target(fetched)
            if isinstance(where, Address) and not isinstance(what, Unreadable):
                return what if reference else Referent(where, what)
            return where

        return read

    def _object_reader(self, value: Value, probe: Probe) -> Reader:
        """Return what reads a pointer to an object of which the table is known as well."""
        pointer = probe.reader(replace(value, members=value.members[:-1]))
        class_of = probe.class_reader(value.members[-1])

        def read(fetched: Fetched) -> Datum:
            where, name = pointer(fetched), class_of(fetched)
            return with_facts(where, **{"class": name}) if name else where

        return read

    def with_reason(self, datum: Datum, reason: str) -> Datum:
        return Unfollowed(datum, reason) if isinstance(datum, Address) and reason else datum

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        pointer = super().slot_reader(value, probe)
        if value.reason:
            return lambda fetched: self.with_reason(pointer(fetched), value.reason)
        if not self.code:
            return pointer

        def read(fetched: Fetched) -> Datum:
            where = pointer(fetched)
            if not isinstance(where, Address):
                return where
            name = probe.symbol(fetched.pid, where)
            return Symbol(name) if name else where

        return read


def with_facts(where: Datum, **facts: str | int) -> Datum:
    """Return a pointer that was read, followed or not, as one of which more is known; what is none
    as it is."""
    if isinstance(where, Referent):
        return Referent(where.address.with_facts(**facts), where.value)
    return where.with_facts(**facts) if isinstance(where, Address) else where


def symbol_mark(number: int) -> str:
    """Return what stands for a name in samples (`Type.mark`)."""
    return f"lbt_mark_{number:04}"


def _slots(values: Iterable[Value]) -> int:
    """The slots of values and of their members, a bit each."""
    found = 0
    for value in values:
        found |= 1 << value.slot if value.slot >= 0 else 0
        found |= _slots(value.members)
    return found


ADDRESS = Pointer("void *")
"""Of something that nothing is known of."""
