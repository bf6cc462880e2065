"""Integers of up to 128 bits, signed or unsigned."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import (
    Decoder,
    Fetched,
    NativeForm,
    NumberType,
    Probe,
    Reader,
    Value,
)
from lbtrace.values.datum import Datum


class Integer(NumberType, Struct, frozen=True, tag="integer"):
    """An integer of ``size`` bytes, at most 16."""

    name: str
    size: int
    signed: bool

    computes = True

    def native_form(self) -> NativeForm:
        if self.size > 8:
            return ""
        return "signed" if self.signed else "unsigned"

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1
        if not self.signed:
            return mask.__and__
        sign = (mask >> 1) + 1
        return lambda raw: ((raw & mask) ^ sign) - sign

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """An integer of 16 bytes in two words."""
        low, high = (probe.reader(half) for half in value.members)

        def read(fetched: Fetched) -> Datum:
            first, second = low(fetched), high(fetched)
            if isinstance(first, int) and isinstance(second, int):
                return second << 64 | first
            return second if isinstance(first, int) else first

        return read


LONG = Integer("long", 8, True)


def fixed_width(size: int, *, signed: bool) -> Integer:
    """Return the type of C's ``<stdint.h>`` with this many bytes: ``int32_t``, ``uint8_t``."""
    return Integer(f"{'' if signed else 'u'}int{8 * size}_t", size, signed)
