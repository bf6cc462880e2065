"""The integer types in which numbers are computed and compared: C's.

Promotions, usual arithmetic conversions, types of constants: C11 6.3.1.1, 6.3.1.8, 6.4.4.1, with
the sizes that Linux has on 64-bit machines. A number is held in 64 bits, extended by its own type;
so converting it to a type of 64 bits changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from lbtrace.model import LONG, Integer, Type


class Width(NamedTuple):
    """An integer type: its bytes, and whether it has negative values."""

    size: int
    signed: bool

    @property
    def low(self) -> int:
        """The smallest value."""
        return -(1 << 8 * self.size - 1) if self.signed else 0

    @property
    def high(self) -> int:
        """The greatest value."""
        return (1 << 8 * self.size - self.signed) - 1

    def wrapped(self, value: int) -> int:
        """``value`` converted to this type."""
        value &= (1 << 8 * self.size) - 1
        return value - (1 << 8 * self.size) if value > self.high else value


INT, UNSIGNED = Width(4, True), Width(4, False)
LONG_LONG, UNSIGNED_LONG = Width(8, True), Width(8, False)

TYPES: dict[Width, Type] = {
    INT: Integer("int", 4, True),
    UNSIGNED: Integer("unsigned int", 4, False),
    LONG_LONG: LONG,
    UNSIGNED_LONG: Integer("unsigned long", 8, False),
}
"""The types that arithmetic has."""


def width(type: Type) -> Width:
    """Return the size and sign of a type that `computes <Type.computes>`."""
    return Width(type.size or 8, type.signed)


def promoted(type: Type, bits: int = 0) -> Width:
    """Return what a value of ``type`` computes as; that of a bit field has this many ``bits``."""
    own = width(type)
    if type.is_truth or own.size < INT.size:
        return INT
    if bits and (bits < 32 or (bits == 32 and own.signed)):
        return INT
    if bits == 32:
        return UNSIGNED
    return own


def common(one: Width, other: Width) -> Width:
    """Return the type in which two promoted values are computed and compared."""
    if one.size == other.size:
        return Width(one.size, one.signed and other.signed)
    return max(one, other)


def of_constant(value: int, hexadecimal: bool) -> Width | None:
    """Return the type of a constant; None where it needs more than 64 bits. C's -2147483648 is what
    is no int, negated."""
    if INT.low < value <= INT.high:
        return INT
    if hexadecimal and 0 <= value <= UNSIGNED.high:
        return UNSIGNED
    if LONG_LONG.low <= value <= LONG_LONG.high:
        return LONG_LONG
    return UNSIGNED_LONG if 0 <= value <= UNSIGNED_LONG.high else None


def limits(type: Type, bits: int = 0) -> tuple[int, int]:
    """Return the smallest and the greatest value of a type, or of a bit field of ``bits``."""
    if type.is_truth:
        return 0, 1
    own = width(type)
    if not bits:
        return own.low, own.high
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if own.signed else (0, (1 << bits) - 1)


def comparable(
    value: int, hexadecimal: bool, operator: str, type: Type, bits: int = 0
) -> int | None:
    """Return the number that values of ``type`` are compared with for ``value``; None where no
    value of the type could ever be, or be less or more.

    Equality converts constants as C does: -1 is the greatest unsigned value, 0xffffffff is
    the int -1.
    """
    low, high = limits(type, bits)
    if operator in ("==", "!=") and not low <= value <= high and (hexadecimal or value < 0):
        own, constant = promoted(type, bits), of_constant(value, hexadecimal)
        if constant is None or common(own, constant).size > own.size:
            return None
        value = own.wrapped(value)
    if not low <= value <= high:
        return None
    never: tuple[tuple[str, int], ...] = (("<", low), (">", high))
    return None if (operator, value) in never else value
