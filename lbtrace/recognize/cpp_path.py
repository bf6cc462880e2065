"""``std::filesystem::path``, which is text to its users: libstdc++'s (``bits/fs_path.h``) and
libc++'s (``__filesystem/path.h``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.string import String


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    first = next((part for part in view.members if not part.is_base), None)
    if first is None or first.name not in ("_M_pathname", "__pn_") or first.offset:
        return None
    text = inside.part(first.type)
    if not isinstance(text, String):
        return None
    return (
        replace(text, name=view.written)
        if text.short
        else replace(text, name=view.written, size=view.size)
    )
