"""Numbers of Rust's library that are wrapped, once or twice: ``NonZero`` (``std::num``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    number = next(view.members, None)
    return None if number is None or not number.placed else inside.part(number.type)
