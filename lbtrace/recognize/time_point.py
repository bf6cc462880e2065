"""``std::chrono::time_point`` of libstdc++ (``bits/chrono.h``) and libc++ (``time_point.h``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.duration import Duration

PARTS = frozenset({"__d", "__d_"})


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    parts = [part for part in view.members if not part.is_base]
    if len(parts) != 1 or parts[0].name not in PARTS or not view.arguments:
        return None
    since = inside.part(parts[0].type)
    if not isinstance(since, Duration):
        return None
    # Any other clock counts from some time of its own.
    tells_time = view.arguments[0].name == "system_clock"
    return replace(since, name=view.written, since_1970=tells_time)
