"""Numbers, truth values and characters: base types, by what their bits are."""

from __future__ import annotations

import re

from lbtrace.recognize import Inside
from lbtrace.recognize.view import CHARACTERS, INTEGERS, SIGNED, View
from lbtrace.values import Type
from lbtrace.values.integer import Integer

SMALL_INTEGERS = frozenset({"signed char", "unsigned char"})
"""Characters by their encoding, but numbers to their users (``uint8_t``)."""

BITS = re.compile(r"\b_(Bit|Ext)Int\b")
"""Integers of any width. What lies beyond it in a register is undefined (psABI 3.1.2), and few
compilers say how wide one is."""

OF_CPP = ("wchar_t", "char8_t")
"""Characters that may be integers by their encoding; only C++ has them as types of their own."""

COMPLEX = {"go": ("real", "imag")}
"""By language: what the parts of a complex number are called in it."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    name, size, encoding = view.written, view.size, view.encoding
    if BITS.search(view.name):
        from lbtrace.values.opaque import Opaque

        return Opaque(name, "a bit-precise integer")
    if encoding in ("float", "complex"):
        return _real(view)
    if size == 16 and encoding in INTEGERS:
        return Integer(name, size, encoding in SIGNED)
    if size not in (1, 2, 4, 8):
        return _unit(view) if not size and view.language == "rust" else None
    if view.name not in OF_CPP and (encoding in INTEGERS or view.name in SMALL_INTEGERS):
        return Integer(name, size, encoding in SIGNED)
    return _other(view, size)


def _unit(view: View) -> Type:
    """The type of Rust whose one value takes no room."""
    from lbtrace.values.record import Record

    return Record(view.written, 0)


def _other(view: View, size: int) -> Type | None:
    """A truth value or a character."""
    if view.encoding == "boolean":
        from lbtrace.values.boolean import Boolean

        return Boolean(view.written, size)
    if view.encoding in CHARACTERS or view.name in OF_CPP:
        from lbtrace.values.character import Character

        signed = view.encoding in SIGNED and view.name not in OF_CPP
        return Character(view.written, size, signed)
    return None


def _real(view: View) -> Type | None:
    """A float, or a complex number of two."""
    from lbtrace.values.float import Float

    size = view.size
    if view.encoding == "float" and size in (2, 4, 8, 16):
        # psABI 3.1.2: a long double of x86-64 has ten bytes, and six of padding
        return Float(view.written, 10 if view.is_x87 else size)
    if view.encoding == "complex" and size in (8, 16, 32):
        from lbtrace.values.base import Member
        from lbtrace.values.record import Record

        part = Float("", 10 if view.is_x87 else size // 2)
        real, imaginary = COMPLEX.get(view.language, ("re", "im"))
        return Record(
            *(view.written, size),
            (Member(real, part, 0), Member(imaginary, part, size // 2)),
        )
    return None
