"""``std::string``: libstdc++'s (``bits/basic_string.h``) and libc++'s (``string``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.string import String

LIBSTDCXX = ("_M_dataplus", "_M_string_length")
LIBCXX = frozenset({"__r_", "__rep_"})
LIBCXX_SIZE = 24
"""libc++'s ``basic_string``: capacity, size and address, or the text itself."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    offsets = {part.name: part.offset for part in view.members if part.placed}
    if offsets.keys() >= {*LIBSTDCXX}:
        pointer, length = (offsets[name] for name in LIBSTDCXX)
        return String(view.written, view.size, pointer, length)
    if view.size == LIBCXX_SIZE and LIBCXX & offsets.keys():
        return String(view.written, view.size, 16, 8, True)
    return None
