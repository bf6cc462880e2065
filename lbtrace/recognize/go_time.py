"""``time.Time`` of Go, since version 1.9."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import PartsFetcher
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.go_time import Time

KindFetcher = PartsFetcher


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    parts = [(part.name, part.offset) for part in view.members]
    return Time(view.written) if parts == [("wall", 0), ("ext", 8), ("loc", 16)] else None
