"""``absl::string_view``, where it is not the standard's (``absl/strings/string_view.h``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.string import String


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    found = find_named(view, ("ptr_", "length_"))
    if found is None:
        return None
    (pointer, start), (length, _) = found
    if start.type.form != "pointer" or start.type.size + length > view.size:
        return None
    return String(view.written, view.size, pointer, length)
