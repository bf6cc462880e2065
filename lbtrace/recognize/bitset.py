"""``std::bitset`` of libstdc++ and libc++ (``bitset``)."""

from __future__ import annotations

import re

from lbtrace.abi.locations import WORD
from lbtrace.model import Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher, PartsFetcher, Take, compose
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.bitset import Bitset
from lbtrace.values.map import COUNT

COUNTED = re.compile(r"bitset<(\d+)")
"""The number of bits, in the name."""

MOST = 128
"""Bits that are shown as digits."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    counted = COUNTED.match(view.name)
    count = int(counted[1]) if counted else 0
    words = -(-count // (8 * WORD))
    return (
        Bitset(view.written, view.size, count)
        if 0 < count <= MOST and view.size == WORD * words
        else None
    )


class KindFetcher(PartsFetcher):
    """What is fetched: its words."""

    def of_parts(self, fetcher: Fetcher, name: str, type: Type, take: Take) -> Value:
        return compose(
            name, type, [take(Member("", COUNT, at)) for at in range(0, type.size, WORD)]
        )
