"""Slices of Rust and ``Vec``: of bytes they are text."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.rust_text import SLICE
from lbtrace.recognize.vector import NESTING, make_vector
from lbtrace.recognize.view import View, find_parts, parts_by_name
from lbtrace.values import Type


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    return _vec(view, inside) if view.name.startswith("Vec<") else _slice(view, inside)


def _slice(view: View, inside: Inside) -> Type | None:
    found = parts_by_name(view, 1)
    if found.keys() != {*SLICE}:
        return None
    pointer, length = (found[part] for part in SLICE)
    return make_vector(view, pointer[1].type.target, inside, pointer[0], length[0])


def _vec(view: View, inside: Inside) -> Type | None:
    at = length_at = -1
    for start, part in find_parts(view, 0, 2 * NESTING):
        if part.type.form == "pointer":
            at = start
        elif part.name == "len":
            length_at = start
    element = next(iter(view.arguments), None)
    if element is None or min(at, length_at) < 0:
        return None
    made = make_vector(view, element, inside, at, length_at)
    if made is None or made.step != 1 or "u8" not in view.name or not made.element.computes:
        return made
    from lbtrace.values.string import String

    return String(view.written, made.size, made.pointer, made.length)
