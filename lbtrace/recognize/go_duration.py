"""``time.Duration`` of Go."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.go_duration import GoDuration


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    return GoDuration(view.written) if view.size == 8 else None
