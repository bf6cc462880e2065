"""``std::string``: libstdc++'s (``bits/basic_string.h``) and libc++'s (``string``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.string import String
from lbtrace.values.wide_text import WideText

LIBSTDCXX, LIBSTDCXX_POINTER = ("_M_dataplus", "_M_string_length"), ("_M_p",)
"""In ``_M_dataplus`` the pointer follows the allocator, if that has state. clang only declares
it where it leaves the definition to libstdc++'s own debug information: its allocator has none."""

LIBCXX, LIBCXX_LONG = ("__l",), ("__data_", "__size_")
"""libc++'s form of long texts, and what it has of them. It lies in a ``__compressed_pair`` up to
version 19, and in a record without a name since."""

LIBCXX_SIZE, LENGTH, POINTER = 24, 8, 16
"""Capacity, size and address, or the text itself. Where the address comes first
(``_LIBCPP_ABI_ALTERNATE_STRING_LAYOUT``) short texts are others as well."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    offsets = {part.name: part.offset for part in view.members if part.placed}
    parts = find_named(view, LIBSTDCXX) if offsets.keys() >= {*LIBSTDCXX} else None
    if parts:
        inner = find_named(parts[0][1].type, LIBSTDCXX_POINTER)
        if inner or not parts[0][1].type.is_sized:
            pointer = parts[0][0] + (inner[0][0] if inner else 0)
            unit = unit_of(view)
            if unit > 1:
                return WideText(view.written, view.size, unit, False, pointer, parts[1][0])
            return String(view.written, view.size, pointer, parts[1][0])
    long = find_named(view, LIBCXX) if view.size == LIBCXX_SIZE else None
    parts = find_named(long[0][1].type, LIBCXX_LONG) if long else None
    if parts and [at for at, _ in parts] == [POINTER, LENGTH]:
        if (unit := unit_of(view)) > 1:
            return WideText(view.written, view.size, unit, False, POINTER, LENGTH, True)
        return String(view.written, view.size, POINTER, LENGTH, True)
    return None


def unit_of(view: View) -> int:
    """Return the size of the characters of a string or a view."""
    first = next(iter(view.arguments), None)
    return first.size if first is not None and first.form == "base" else 1
