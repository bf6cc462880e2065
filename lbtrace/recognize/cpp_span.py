"""``std::span``: libstdc++'s and libc++'s (``span``)."""

from __future__ import annotations

import re

from lbtrace.abi.locations import WORD
from lbtrace.recognize import Inside
from lbtrace.recognize.vector import make_vector
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.array import Array
from lbtrace.values.pointer import Pointer

COUNTED = (("_M_ptr", "_M_extent_value"), ("__data", "__size"), ("__data_", "__size_"))
FIXED = ("_M_ptr", "__data", "__data_")

EXTENT = re.compile(r", (\d+)[uUlL]*>$")
"""The number of elements, in the name."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    for pair in COUNTED:
        if (found := find_named(view, pair)) is not None:
            (at, pointer), (length, _) = found
            return make_vector(view, pointer.type.target, inside, at, length)
    extent = EXTENT.search(view.name)
    if extent is None or view.size != WORD:
        return None
    count = int(extent[1])
    for name in FIXED:
        if (found := find_named(view, (name,))) is not None:
            element = found[0][1].type.target
            if element is None or not element.size:
                return None
            held = Array(view.written, count * element.size, inside.element(element), count)
            return Pointer(view.written, WORD, held, single=True)
    return None
