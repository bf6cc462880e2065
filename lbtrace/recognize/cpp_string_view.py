"""``std::string_view``: libstdc++'s and libc++'s (``string_view``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.cpp_string import unit_of
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.string import String
from lbtrace.values.wide_text import WideText

MEMBERS = (("_M_str", "_M_len"), ("__data", "__size"), ("__data_", "__size_"))


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    offsets = {part.name: part.offset for part in view.members if part.placed}
    for pointer, length in MEMBERS:
        if pointer in offsets and length in offsets:
            if (unit := unit_of(view)) > 1:
                at = offsets[pointer], offsets[length]
                return WideText(view.written, view.size, unit, False, *at)
            return String(view.written, view.size, offsets[pointer], offsets[length])
    return None
