"""Pointers to members of C++: offsets, or addresses of functions (Itanium C++ ABI, 2.3)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    if view.leads_to_code:
        return Pointer(view.written, code=True)
    return Integer(view.written, 8, True)
