"""Arguments that are there when a call ends, as those of system calls: their registers are the
program's again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from lbtrace.abi.locations import Location
from lbtrace.model import Fetch, Type


class Content(Struct, frozen=True):
    """What an argument leads to when the call ends: a value of ``type``, of as many bytes as the
    least of ``lengths``; up to a NUL where there are none."""

    type: Type
    lengths: tuple[Fetch, ...] = ()


class Lasting(Struct, frozen=True):
    """The ``places`` of all arguments when the call ends, and the ``contents`` of some, by name.
    Those that are ``filled`` by the call are not there before."""

    places: tuple[Location, ...]
    contents: Mapping[str, Content]
    filled: frozenset[str]


def least(lengths: Sequence[Fetch], slot: Callable[[Fetch], int]) -> Fetch | None:
    """Return what fetches the least of two signed numbers, or the one that there is. ``slot`` finds
    one for what it is computed from."""
    if len(lengths) < 2:
        return lengths[0] if lengths else None
    one, other = (slot(each) for each in lengths)
    apart = slot(Fetch(base="slot", earlier=one, plus=other, factor=-1))
    sign = Fetch(base="slot", earlier=apart, operation="shift right signed", operand=63)
    below = Fetch(base="slot", earlier=apart, operation="and", plus=slot(sign))
    return Fetch(base="slot", earlier=other, plus=slot(below))
