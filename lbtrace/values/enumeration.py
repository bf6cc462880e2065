"""Enumerations: integers some of which have names."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.text import clean
from lbtrace.values.base import Decoder, NativeForm, NumberType
from lbtrace.values.datum import Datum, Token
from lbtrace.values.integer import Integer


class Constant(Token):
    """The value of an enumeration, by name."""

    __slots__ = ()

    syntax = "symbol"

    def text(self) -> str:
        return clean(self)


class Enumeration(NumberType, Struct, frozen=True, tag="enumeration"):
    """An integer whose ``values`` have names. `Type.constant_scopes` are kept where expressions
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

    def native_form(self) -> NativeForm:
        return "name" if self.size <= 8 else ""

    def decoder(self) -> Decoder:
        integer = Integer(self.name, self.size, self.signed).decoder()
        names: dict[Datum, Datum] = {n: Constant(name) for n, name in reversed(self.values)}

        def decode(raw: int) -> Datum:
            number = integer(raw)
            return names.get(number, number)

        return decode
