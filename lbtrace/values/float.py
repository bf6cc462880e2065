"""Floating-point numbers."""

from __future__ import annotations

import math
from struct import Struct as Layout

from msgspec import Struct

from lbtrace.values.base import MARK, Decoder, NativeForm, NumberType
from lbtrace.values.datum import Datum, Unreadable

LAYOUTS = {2: Layout("<e"), 4: Layout("<f"), 8: Layout("<d")}

WIDE = {10: (63, True), 16: (112, False)}
"""Bits of the fraction, and whether the bit before it is stored: Intel SDM volume 1,
section 4.2.2, and IEEE 754 binary128. Both have exponents of 15 bits."""

INFINITE = 0x7FFF


class Float(NumberType, Struct, frozen=True, tag="float"):
    """A floating-point number of ``size`` bytes: IEEE 754 binary16, 32, 64 or
    128, or with 10 bytes the x87's (``long double`` on x86-64)."""

    name: str
    size: int

    is_real = True

    def is_sound(self) -> bool:
        return self.size in LAYOUTS or self.size in WIDE

    def native_form(self) -> NativeForm:
        return "real" if self.size in (4, 8) else ""

    def mark(self, number: int) -> tuple[str, Datum]:
        mark = MARK * 10**5 + number + 0.5
        return repr(mark), mark

    def decoder(self) -> Decoder:
        if self.size in WIDE:
            return self._wide_decoder()
        size, unpack = self.size, LAYOUTS[self.size].unpack
        mask = (1 << 8 * size) - 1

        def decode(raw: int) -> Datum:
            number: float = unpack((raw & mask).to_bytes(size, "little"))[0]
            return number

        return decode

    def _wide_decoder(self) -> Decoder:
        """Numbers that Python's floats do not hold exactly: they are rounded."""
        size = self.size
        fraction_bits, explicit = WIDE[size]

        def decode(raw: int) -> Datum:
            exponent = raw >> 8 * size - 16 & INFINITE
            sign = -1.0 if raw >> 8 * size - 1 & 1 else 1.0
            fraction = raw & (1 << fraction_bits) - 1
            if exponent == INFINITE:
                return float("nan") if fraction else sign * float("inf")
            integral = explicit and raw >> fraction_bits & 1
            if explicit and exponent and not integral:
                return Unreadable("no number")
            if not explicit:
                integral = int(exponent > 0)
            try:
                shift = max(exponent, 1) - 0x3FFF - fraction_bits
                return sign * math.ldexp(fraction | int(integral) << fraction_bits, shift)
            except OverflowError:
                return Unreadable("more than a double holds")

        return decode
