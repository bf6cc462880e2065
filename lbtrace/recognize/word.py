"""Bytes of unknown type."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.word import Word


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    return Word(view.written, view.size, False) if view.size else None
