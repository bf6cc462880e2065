"""``std::atomic``, which is what it holds: libstdc++'s (``bits/atomic_base.h``, ``atomic``) and
libc++'s (``atomic``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type

HELD = ("_M_i", "_M_p", "_M_fp", "__a_value")


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    for name in HELD:
        found = find_named(view, (name,))
        if found is not None and not found[0][0] and found[0][1].type.size == view.size:
            return inside.part(found[0][1].type)
    return None
