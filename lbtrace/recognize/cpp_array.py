"""``std::array``, which is an array to its users: libstdc++'s and libc++'s (``array``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.array import Array


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    parts = [part for part in view.members if part.name in ("_M_elems", "__elems_")]
    if len(parts) != 1 or parts[0].type.form != "array" or parts[0].offset:
        return None
    held = inside.part(parts[0].type)
    return replace(held, name=view.written) if isinstance(held, Array) else None
