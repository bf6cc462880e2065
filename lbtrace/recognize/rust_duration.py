"""Rust's ``std::time::Duration`` (``library/core/src/time.rs``)."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import PartsFetcher
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.integer import fixed_width
from lbtrace.values.rust_duration import RustDuration

PARTS = ("secs", "nanos")

KindFetcher = PartsFetcher


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    found = find_named(view, PARTS)
    sizes = [part.type.size for _, part in found or ()]
    if found is None or sizes != [8, 4]:
        return None
    secs, nanos = (
        Member(name, fixed_width(part.type.size, signed=False), at)
        for name, (at, part) in zip(PARTS, found, strict=True)
    )
    return RustDuration(view.written, view.size, secs, nanos)
