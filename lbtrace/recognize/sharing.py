"""Shares the slots of probes among values: what is asked for comes first, then elements of
containers, then what pointers lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from lbtrace.abi.locations import Detail
from lbtrace.model import Fetch
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.recognize.slots import NO_ROOM

Made = TypeVar("Made")


def collected(limit: int, detail: Detail, make: Callable[[Fetcher], Made]) -> tuple[Made, Fetcher]:
    """As `collect`, of one probe."""
    made, (fetcher,) = collect([Fetcher], limit, detail, make)
    return made, fetcher


def collect(
    kinds: Sequence[type[Fetcher]], limit: int, detail: Detail, make: Callable[..., Made]
) -> tuple[Made, list[Fetcher]]:
    """Return what ``make`` makes, and what fetches it, one of each of ``kinds``, with ``limit``
    slots each. Values that may be left out get the slots that all others leave, and what pointers
    lead to those that remain then."""
    nothing: list[tuple[Fetch, ...]] = [()] * len(kinds)
    made, fetchers = _collect(kinds, limit, detail, make, nothing)
    if detail.depth and any(each.is_short or each.refused for each in fetchers):
        _, shallow = _collect(kinds, limit, replace(detail, depth=0), make, nothing)
        return _collect(kinds, limit, detail, make, [each.fetches for each in shallow])
    return made, fetchers


def _collect(
    kinds: Sequence[type[Fetcher]],
    limit: int,
    detail: Detail,
    make: Callable[..., Made],
    kept: Sequence[Sequence[Fetch]],
) -> tuple[Made, list[Fetcher]]:
    """The same, where the fetches ``kept`` have the first slots."""
    pairs = [*zip(kinds, kept, strict=True)]
    fetchers = [kind(limit, detail, NO_ROOM, fetches) for kind, fetches in pairs]
    made = make(*fetchers)
    left = [f.remaining if f.refused and min(f.remaining[:2]) else NO_ROOM for f in fetchers]
    if any(budget != NO_ROOM for budget in left):
        fetchers = [
            kind(limit, detail, budget, fetches)
            for (kind, fetches), budget in zip(pairs, left, strict=True)
        ]
        made = make(*fetchers)
    return made, fetchers
