"""Enumerations: integers some of which have names."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.text import clean
from lbtrace.values.base import TABLED, Decoder, NativeForm, NumberType
from lbtrace.values.datum import Datum, Token
from lbtrace.values.integer import Integer


class Constant(Token):
    """The value of an enumeration, by name."""

    __slots__ = ()

    syntax = "symbol"

    def text(self) -> str:
        return clean(self)


FLAGS, COUNTS = 2, 3
"""Bits that an enumeration of flags has at least, and numbers that another one counts at least
that looks like one: a sum of ``{1, 2}`` is possible, one of ``{0, 1, 2, 3}`` is not."""


class Enumeration(NumberType, Struct, frozen=True, tag="enumeration"):
    """An integer whose ``values`` have names; sums of flags are shown as these: ``C|A``.
    `Type.constant_scopes` are kept where expressions
    ask for them."""

    name: str
    size: int
    signed: bool
    values: tuple[tuple[int, str], ...] = ()
    constant_scopes: tuple[str, ...] = ()

    computes = True
    has_constants = True

    def constants(self) -> tuple[tuple[int, str], ...]:
        return self.values

    def flags(self) -> tuple[tuple[int, str], ...]:
        """Return the single bits that have names, the highest first, where the enumeration is one
        of flags: it has at least two, names no other bit, and does not just count."""
        numbers = sorted({number for number, _ in self.values})
        bits = {n: name for n, name in reversed(self.values) if n > 0 and not n & n - 1}
        counts = len(numbers) > COUNTS and numbers[-1] - numbers[0] < len(numbers)
        if len(bits) < FLAGS or counts or any(n < 0 or n & ~sum(bits) for n in numbers):
            return ()
        return tuple(sorted(bits.items(), reverse=True))

    def native_form(self) -> NativeForm:
        flags = self.flags()
        return "name" if self.size <= 8 and (not flags or 2 * flags[0][0] <= TABLED) else ""

    def decoder(self) -> Decoder:
        integer = Integer(self.name, self.size, self.signed).decoder()
        names: dict[Datum, Datum] = {n: Constant(name) for n, name in reversed(self.values)}
        flags = self.flags()
        others = ~sum(bit for bit, _ in flags)

        def decode(raw: int) -> Datum:
            number = integer(raw)
            if number in names or not flags or not isinstance(number, int) or number & others:
                return names.get(number, number)
            held = "|".join(name for bit, name in flags if number & bit)
            return Constant(held) if held else number

        return decode
