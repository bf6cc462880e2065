"""What a function is passed beyond a format of ``printf``, which says how many values there are and
of which types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lbtrace.values.array import Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.character import Character
from lbtrace.values.datum import Datum, Unreadable, WrittenNumber
from lbtrace.values.float import Float
from lbtrace.values.outcome import within
from lbtrace.values.pointer import Address
from lbtrace.values.string import Text

CONVERSION = re.compile(
    rb"%[-+ #0'I]*(?P<width>\*)?\d*(?:\.(?:(?P<count>\*)|(?P<precision>\d*)))?"
    rb"(?P<length>hh|h|ll|l|q|L|j|z|Z|t)?(?P<conversion>.)",
    re.DOTALL,
)
"""C11 7.21.6.1, printf(3). Those that number their arguments (``%1$s``) are none."""

SIZES = {b"hh": 1, b"h": 2, None: 4}
"""Bytes of integers by their length; 8 of all others."""

WORD = 8

MORE = Unreadable("…")
"""In place of further arguments, which are not known."""


def _integer(raw: int, size: int, *, signed: bool) -> int:
    """The integer in the lowest ``size`` bytes of a word."""
    return int.from_bytes(raw.to_bytes(WORD, "little")[:size], "little", signed=signed)


class Hexadecimal(WrittenNumber):
    """An integer that the program writes in hexadecimal."""

    __slots__ = ()

    def text(self) -> str:
        return f"{int(self):#x}"


class Formatted(Type, Struct, frozen=True, tag="formatted"):
    """Arguments that a format asks for: each of the values is one. Integers take the ``integers``
    registers that are left for them, floats those of which ``floats`` say why they cannot be read,
    then both take the stack. A long double that is ``x87`` takes the stack in any case.

    The members of its value: the format; what lies on the stack; what the registers for integers
    hold; the texts to which these and the words on the stack lead.
    """

    name: str
    integers: int
    floats: tuple[str, ...]
    x87: bool

    is_number = False
    spreads = True

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        format, stack, *others = value.members
        read_format = probe.reader(format)
        slots = [word.slot for word in others[: self.integers]]
        texts = [probe.reader(text) for text in others[self.integers :]]

        def read(fetched: Fetched) -> Datum:
            written = read_format(fetched)
            if not isinstance(written, Text):
                return Elements((MORE,))
            piece = bytes(fetched.pieces.get(stack.slot, b""))
            passed = _Passed(self, fetched, slots, piece, texts)
            return Elements((*passed.values(written.data), *[MORE] * written.cut))

        return read


class _Passed:
    """The arguments of one call."""

    def __init__(
        self,
        type: Formatted,
        fetched: Fetched,
        slots: Sequence[int],
        stack: bytes,
        texts: Sequence[Reader],
    ) -> None:
        self._fetched = fetched
        self._slots = slots
        self._floats = [*type.floats]
        self._x87 = type.x87
        self._stack = stack
        self._texts = texts
        self._taken = self._pushed = 0  # registers, and bytes of the stack

    def values(self, format: bytes) -> Iterator[Datum]:
        """Yield them, as far as they are known, then `MORE` in place of those that are not."""
        try:
            for found in CONVERSION.finditer(format):
                yield from self._converted(found)
        except LookupError:
            yield MORE

    def _converted(self, found: re.Match[bytes]) -> Iterator[Datum]:
        """What a conversion takes. Raises `LookupError` where that is not known."""
        kind, length = found["conversion"], found["length"]
        precision = int(found["precision"] or 0) if found["precision"] is not None else -1
        if found["width"]:
            yield _integer(self._word()[0], 4, signed=True)
        if found["count"]:
            precision = _integer(self._word()[0], 4, signed=True)
            yield precision
        if kind in b"%m":
            return
        if kind in b"aAeEfFgG":
            yield self._float(long=length == b"L")
            return
        if kind not in b"dibBouxXcCsSpn":
            raise LookupError(kind)
        word, text = self._word()
        if kind == b"s" and length != b"l":
            shown = text(self._fetched) if word else Address(0)
            yield within(shown, precision) if precision >= 0 else shown
        elif kind in b"sSpn":
            yield Address(word)
        elif kind in b"cC":
            size = 4 if kind == b"C" or length == b"l" else 1
            yield Character("", size, False).decoder()(word)
        else:
            number = _integer(word, SIZES.get(length, WORD), signed=kind in b"di")
            yield Hexadecimal(number) if kind in b"xX" else number

    def _word(self) -> tuple[int, Reader]:
        """The next integer, and what reads the text at that address."""
        if self._taken < len(self._slots):
            word = self._fetched.words[self._slots[self._taken]]
            self._taken += 1
            return word, self._texts[self._taken - 1]
        word = self._from_stack(WORD)
        return word, self._texts[self._taken + self._pushed // WORD - 1]

    def _float(self, *, long: bool) -> Datum:
        if self._floats and not (long and self._x87):
            return Unreadable(self._floats.pop(0))
        raw = self._from_stack(2 * WORD if long else WORD)
        return Float("", (10 if self._x87 else 16) if long else WORD).decoder()(raw)

    def _from_stack(self, size: int) -> int:
        """The next bytes there, which begin at a multiple of their number."""
        start = -(-self._pushed // size) * size
        self._pushed = start + size
        if self._pushed > len(self._stack):
            raise LookupError
        return int.from_bytes(self._stack[start : self._pushed], "little")
