"""Recognizes enumerations of C, C++ and Rust."""

from __future__ import annotations

from itertools import islice

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.enumeration import Enumeration

ENUMERATORS = 1024
"""Names that are taken."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    size = view.size
    if size not in (1, 2, 4, 8):
        return None
    values = list(islice(view.constants, ENUMERATORS))
    signed = any(number < 0 for number, _ in values)
    if not signed:
        values = [(number & (1 << 8 * size) - 1, name) for number, name in values]
    return Enumeration(view.written, size, signed, tuple(values), tuple(view.constant_scopes))
