"""Numbers in expressions: integers, times, and reals."""

from __future__ import annotations

import math
from decimal import Decimal

from lbtrace.expressions.tokens import Token
from lbtrace.expressions.tree import ExpressionError, Number

DIGITS = 40
"""Of a number: the greatest that there is has 20, and a time may have decimals."""

UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
"""Units of time, in ns."""


def read_number(token: Token) -> Number:
    """Return the number that ``token`` is. Raises `ExpressionError`."""
    if token.unit:
        return Number(token.at, _time(token), "time")
    if _is_real(token.text):
        number = float(token.text)
        if len(token.text) > DIGITS or math.isinf(number):
            raise _too_large(token, "it is beyond those that a double holds, or has over 40 digits")
        return Number(token.at, number, "real")
    hexadecimal = token.text[:2] in ("0x", "0X")
    return Number(token.at, read_integer(token), "hexadecimal" if hexadecimal else "decimal")


def read_integer(token: Token) -> int:
    """Return the integer that ``token`` is. Raises `ExpressionError`."""
    if len(token.text) > DIGITS:
        raise _too_large(token, "numbers have up to 64 bits")
    if token.unit or _is_real(token.text):
        what = f"{token.text}{token.unit} is no whole number"
        raise ExpressionError(token.at, what, "an index is one")
    if token.text[:2] in ("0x", "0X"):
        return int(token.text, 16)
    octal = len(token.text) > 1 and token.text[0] == "0"  # 0600, as C has it
    return int(token.text, 8 if octal else 10)


def _time(token: Token) -> int:
    """A time in ns."""
    if len(token.text) > DIGITS:
        raise _too_large(token, "numbers have up to 64 bits")
    if not token.text.replace(".", "").isdigit():
        what = "a time is written with digits and decimals only"
        raise ExpressionError(token.at, what, "write 1.5ms")
    return round(Decimal(token.text) * UNITS[token.unit])


def _is_real(text: str) -> bool:
    return not text.isdigit() and text[:2] not in ("0x", "0X")


def _too_large(token: Token, hint: str) -> ExpressionError:
    return ExpressionError(token.at, "this number is too large", hint)
