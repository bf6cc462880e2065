"""``std::chrono::duration`` of libstdc++ (``bits/chrono.h``) and libc++ (``duration.h``)."""

from __future__ import annotations

import re

from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import PartsFetcher
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.duration import Duration

PARTS = frozenset({"__r", "__rep_"})

RATIO = re.compile(r"ratio<(\d+)L?, ?(\d+)L?>$", re.IGNORECASE)
"""The period. Where compilers leave arguments out of names (``-gsimple-template-names``) it is not
known, and a duration is shown as the record that it is."""

KindFetcher = PartsFetcher


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    parts = [part for part in view.members if not part.is_base]
    if len(parts) != 1 or parts[0].name not in PARTS or len(view.arguments) != 2:
        return None
    period = RATIO.search(view.arguments[1].name)
    count = inside.part(parts[0].type)
    if period is None or not (count.computes or count.is_real):
        return None
    return Duration(view.written, view.size, count, int(period[1]), int(period[2]))
