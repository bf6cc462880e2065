"""What all kinds of values have in common: a type, and what reads values of it from an event.

A kind is a subclass of `Type` that is also a frozen `msgspec.Struct` with a tag of its own, and
a row in `lbtrace.values.KINDS`. What its values are decoded to is a number, a truth value, None
or a subclass of `lbtrace.values.datum.Form`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct

from lbtrace.values.datum import FAULT, NOT_READ, UNDECODABLE, Datum, Unreadable

UNKNOWN_LENGTH = 0xFFFF_FFFF
"""What the kernel program reports for an unknown length (``struct lbt_fetch``)."""

TABLED = 256
"""Numbers from 0 on of which native code knows how each is written, though they have no name."""

SIZES = range(1, 17)
"""Bytes that a value of one piece may have."""


MARK = 4215
"""What `Type.mark` begins with. No number of it is beyond those that a double holds."""

NativeForm: TypeAlias = Literal[
    "",
    "signed",
    "unsigned",
    "address",
    "word",
    "real",
    "name",
    "truth",
    "character",
    "text",
    "characters",
    "symbol",
]
"""What native code writes: a number in decimal, an address in hexadecimal, a ``"word"`` as either,
a floating-point number, the name of a number, a truth value, a character, the text in a slot or, in
``"characters"``, up to the first NUL, the name of the function at an address; ``""`` where only
the decoder knows."""

Decoder: TypeAlias = Callable[[int], Datum]
"""A raw, zero-extended 64-bit slot to the value it holds."""


class Fetched:
    """What an event brought, by slot: words, and for those that are in memory their bytes."""

    __slots__ = ("faults", "pid", "pieces", "words")

    def __init__(
        self, words: Sequence[int], pieces: dict[int, bytes | memoryview], faults: int, pid: int
    ) -> None:
        self.pid = pid
        self.words = words
        self.pieces = pieces
        self.faults = faults


Reader: TypeAlias = Callable[[Fetched], Datum]
"""What gets a value out of what was fetched."""


class Probe(Protocol):
    """What makes the readers of a probe's values, and what is known there besides the events:
    ``names`` are those of Go's types and their kinds, by hash, ``held`` the structs of errors."""

    @property
    def names(self) -> Mapping[int, tuple[str, int]]: ...

    @property
    def held(self) -> Mapping[int, Type]: ...

    def reader(self, value: Value) -> Reader:
        """Return what reads a value, or a part of one."""

    def is_piece(self, slot: int) -> bool:
        """Return whether a slot holds bytes from memory, no word."""

    def symbol(self, pid: int, address: int) -> str:
        """Return the name of the function at an address of a process; ``""`` where there is
        none."""

    def class_reader(self, table: Value) -> Callable[[Fetched], str]:
        """Return what reads the class of which a value is the address of the table of virtual
        functions; ``""`` where it is that of no such table."""


class Type:
    """The type of a value: what a reader of captures needs to know of it.

    ``name`` is the whole type as the source writes it, ``size`` is in bytes (0 where it has
    none), ``signed`` says whether its numbers are, ``code`` whether it leads to functions.
    ``target`` is the type of what it leads to, where it leads to values of one type.
    ``constant_scopes`` are what may stand before the names of its `constants`, fully qualified:
    the name of a scoped enumeration, also what is around an unscoped one; empty if not known.
    ``decider`` is another argument of the call that decides about these names.

    What follows says how expressions, sinks and conventions take such values, so that none of
    them need know the kind: a new one overrides what is true of it.
    """

    __slots__ = ()

    name: str = ""
    size: int = 0
    signed: bool = False
    code: bool = False
    target: Type | None = None
    constant_scopes: tuple[str, ...] = ()
    decider: str = ""

    has_values: ClassVar[bool] = True
    """Whether there are values of such a type; there is none of ``void``."""

    is_known: ClassVar[bool] = True
    """Whether more is known of it than its name."""

    @property
    def is_declared(self) -> bool:
        """Whether debug information only declares it: neither its size nor what it has is known."""
        return False

    is_typed: ClassVar[bool] = True
    """Whether it is known what its bytes are."""

    through: ClassVar[bool] = False
    """Whether its values are shown wherever a reference leads to them, as those of texts are."""

    computes: ClassVar[bool] = False
    """Whether expressions compute with such values: an integer or an address."""

    is_address: ClassVar[bool] = False
    """Whether its numbers are addresses: one more is the ``target`` that comes next."""

    is_truth: ClassVar[bool] = False
    """Whether its numbers are 0 and 1."""

    has_constants: ClassVar[bool] = False
    """Whether its numbers may have names: `constants`, if debug information has them."""

    is_written: ClassVar[bool] = False
    """Whether it has elements, but is compared as a whole, with the text of an address."""

    is_real: ClassVar[bool] = False
    """Whether its numbers have fractions, with which the kernel does not compute."""

    is_number: ClassVar[bool] = True
    """Whether one word is what the `decoder` makes of it: not if an array's text lies in it."""

    is_composed_alike: ClassVar[bool] = False
    """Whether values whose members can all be read differ only in these: for native code."""

    names_zero: ClassVar[bool] = False
    """Whether a value of several members has another form where the first is 0."""

    spreads: ClassVar[bool] = False
    """Whether an argument of this type stands for several: each of its elements is one."""

    names_types: ClassVar[bool] = False
    """Whether reading a value takes the names of the program's types (`Probe.names`)."""

    def is_sound(self) -> bool:
        """Return whether any value could have this type, as not all in damaged captures."""
        return True

    def bare(self) -> Type:
        """Return the type without what it is made of: a value has its own members."""
        return self

    def without_class(self) -> Type:
        """Return the type of the same values of which it is not shown to objects of what class
        they lead; itself where that is not shown anyway."""
        return self

    def with_parts(self, count: int) -> Type:
        """Return the type of a value of which this many parts are shown."""
        return self.bare()

    def is_flat(self) -> bool:
        """Return whether a value of this type is what lies in its bytes, and leads nowhere."""
        return True

    def is_open_ended(self) -> bool:
        """Return whether such a value has elements behind its end, as C99 has it."""
        return False

    def is_text(self) -> bool:
        """Return whether such a value is text, or an address that leads to text."""
        return False

    def long_text(self) -> tuple[int, int] | None:
        """Return the offsets of address and length of a text that lies in the value itself where it
        is short, as in libc++; None of other values."""
        return None

    def is_handle(self) -> bool:
        """Return whether it is an address to which no other may be added: what lies there is the
        language's own."""
        return False

    def is_alias(self) -> bool:
        """Return whether it is a reference: another name of the value that it leads to."""
        return False

    def is_char(self) -> bool:
        """Return whether such a value is a character of one byte, of which text is made."""
        return False

    def named_parts(self) -> Sequence[Member]:
        """Return what expressions can name in such a value: ``value.part``."""
        return ()

    def components(self) -> Sequence[Member] | None:
        """Return the parts of which a value consists, each of which can be fetched by itself, and
        of which expressions find parts as if they were its own; None where it is no such record."""
        return None

    def time_parts(self) -> TimeParts:
        """Return the numbers of which a span of time is the sum; none of other values."""
        return ()

    def stands_for(self) -> Member | None:
        """Return the pointer that such a value is to expressions; None of most."""
        return None

    def representation(self) -> Type | None:
        """Return the record that such a value is to who wrote its type, where expressions find
        members that are not its users'; None of most."""
        return None

    def element_at(self, index: int) -> Member | None:
        """Return what ``value[index]`` is where elements lie in the value itself; None where
        not."""
        return None

    def elements(self) -> Member | None:
        """Return the pointer to the first element of a value that keeps them elsewhere; None of
        others."""
        return None

    def counted(self) -> tuple[Member, Member | None, int] | None:
        """Return what says how many elements or bytes a value has: a number, or a second one is to
        be taken from it, and then divided by the third. None where that is not known."""
        return None

    def may_be_text(self) -> bool:
        """Return whether it is two words of which nothing else is known: a string of Go, if any
        text."""
        return False

    def constants(self) -> Sequence[tuple[int, str]]:
        """Return the numbers that have names in such a type."""
        return ()

    def number_called(self, text: bytes) -> int | None:
        """Return the number of a value that is written as ``text``, if values are written so."""
        return None

    def decided(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """Return the `decider` and its numbers where a value is called so; None where no other
        argument decides about that name."""
        return None

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        """Return the names of values that hold nothing, as ``nullopt`` and ``None`` do: each with
        the part of the value that has a certain number then, and never else, and that number."""
        return ()

    def native_form(self) -> NativeForm:
        """Return how native code may write such a value that is of one piece."""
        return ""

    def mark(self, number: int) -> tuple[str, Datum]:
        """Return a value of this type, of its `native_form`, and the text by which it is found in
        what any format writes of it: ``number`` (below 10,000) is a part of that."""
        mark = MARK * 10**12 + number
        return str(mark), mark

    def with_reason(self, datum: Datum, reason: str) -> Datum:
        """Return a value of one piece that was read, but for a ``reason`` not what it leads to."""
        return datum

    def decoder(self) -> Decoder:
        """Return what decodes a raw slot, of which bytes beyond the size of the type are ignored:
        the System V convention (psABI 3.2.3) leaves them undefined in a register."""
        return lambda raw: UNDECODABLE

    def reader(self, value: Value, probe: Probe) -> Reader:
        """Return what reads ``value``, which is of this type. What it raises for values that cannot
        be, as of damaged captures, is taken for `UNDECODABLE`."""
        if value.members:
            return self.composed_reader(value, probe)
        if value.slot < 0:
            nothing = self.absent(value.reason)
            return lambda fetched: nothing
        return self.slot_reader(value, probe)

    def absent(self, reason: str) -> Datum:
        """Return the value where nothing is fetched for it."""
        return Unreadable(reason)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return what reads a value of several members."""
        raise TypeError(f"{type(self)} has no members")

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        """Return what reads a value of one slot."""
        return number_reader(value, probe.is_piece(value.slot))


class NumberType(Type):
    """A type of values in one piece: numbers, addresses, characters."""

    __slots__ = ()

    def is_sound(self) -> bool:
        return self.size in SIZES


class Member(Struct, frozen=True):
    """A member of a value: ``offset`` in bytes from its start.

    A bit field has a ``bit_size``; it begins ``bit_offset`` bits above the
    lowest bit of the byte at ``offset``.
    """

    name: str
    type: Type
    offset: int
    bit_offset: int = 0
    bit_size: int = 0


TimeParts: TypeAlias = Sequence[tuple[Member, int, int]]
"""Numbers in a value, each with the seconds that one of it takes, as a fraction."""


class Value(Struct, frozen=True):
    """A parameter or a result: its name, its type, and its slot in an event.

    ``slot`` is the number of a fetch of the probe; -1 says that the value
    cannot be read, and ``reason`` why (``float in xmm0``). Of a pointer with a slot ``reason`` is
    why it is not followed. The value begins
    ``offset`` bytes into what was fetched; of a bit field, ``bit_size`` bits
    from ``bit_offset`` on. The ``members`` of a record, the elements of an
    array and what a pointer leads to are values of their own.
    """

    name: str
    type: Type
    slot: int = -1
    reason: str = ""
    offset: int = 0
    bit_offset: int = 0
    bit_size: int = 0
    members: tuple[Value, ...] = ()


def decoder(type: Type) -> Decoder:
    """Return the function that turns a raw slot into a value of ``type``. A type that no value can
    have, as damaged captures may hold, makes all its values unreadable."""
    return type.decoder() if type.is_sound() else lambda raw: UNDECODABLE


def number_reader(value: Value, in_memory: bool) -> Reader:
    """Return what reads a value of one piece, or a bit field."""
    slot, fault, offset = value.slot, 1 << value.slot, value.offset
    size = value.type.size or 8
    decode = decoder(value.type)
    low, mask = 0, 0
    sign = 0
    if value.bit_size:
        low, mask = value.bit_offset, (1 << value.bit_size) - 1
        size = -(-(low + value.bit_size) // 8)
        sign = 1 << value.bit_size - 1 if value.type.signed else 0

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & fault:
            return FAULT
        if in_memory:
            piece = fetched.pieces.get(slot, b"")[offset : offset + size]
            if len(piece) < size:
                return NOT_READ
            raw = int.from_bytes(piece, "little")
        else:
            raw = fetched.words[slot] >> 8 * offset
        if mask:
            raw = raw >> low & mask
            raw = (raw ^ sign) - sign & (1 << 64) - 1
        return decode(raw)

    return read
