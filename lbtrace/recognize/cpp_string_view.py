"""``std::string_view``: libstdc++'s and libc++'s (``string_view``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.string import String

MEMBERS = (("_M_str", "_M_len"), ("__data", "__size"), ("__data_", "__size_"))


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    offsets = {part.name: part.offset for part in view.members if part.placed}
    for pointer, length in MEMBERS:
        if pointer in offsets and length in offsets:
            return String(view.written, view.size, offsets[pointer], offsets[length])
    return None
