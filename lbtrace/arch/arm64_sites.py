"""Where in an arm64 function a uprobe stands best.

The kernel simulates branches and ``adr``; what else it accepts it
single-steps, at a multiple of the cost (`lbtrace.arch.arm64_words`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from lbtrace.arch import Code, Read, Stored, arm64_words
from lbtrace.model import Fetch, Site

PREFIX_LIMIT = 16
"""Instructions looked at before the search for a cheap place is given up."""


class Place(NamedTuple):
    """An instruction at which a probe could stand; ``sunk`` is how far the stack pointer
    lies below its value at entry, ``cost`` is 0 for a simulated instruction."""

    address: int
    word: int
    sunk: int
    cost: int


_REASONS = (
    "simulated",
    "simulated from Linux 6.13 on",
    "no simulated instruction is within reach",
)
"""Why a place was chosen, by its cost."""


class Arm64Planner:
    """Chooses probe places."""

    def choose(self, code: Code, keep: Collection[str], *, returns: bool) -> Site | None:
        """See `lbtrace.arch.Planner.choose`."""
        obstacle = ""
        places = sorted(_prefix(code, keep, returns=returns), key=lambda place: place.cost)
        for place in places:
            found = _obstacle(code, place) if place.address != code.address else ""
            if not found:
                reason = obstacle if obstacle and place.cost else _REASONS[place.cost]
                return Site(
                    place.address,
                    code.offset + place.address - code.address,
                    place.sunk,
                    f"{place.word:08x}",
                    place.cost < 2,
                    reason,
                )
            obstacle = obstacle or found
        return None

    def stored(self, code: Code, read: Read) -> Iterator[Stored]:
        """See `lbtrace.arch.Planner.stored`; not looked for on arm64."""
        return iter(())

    def results(
        self, code: Code, returns: Collection[int], read: Read
    ) -> dict[str, tuple[Fetch, int]]:
        """See `lbtrace.arch.Planner.results`; not looked for on arm64."""
        return {}


def _prefix(code: Code, keep: Collection[str], *, returns: bool) -> Iterator[Place]:
    """The places of the straight-line start, in order, that the kernel accepts.

    With ``returns`` the kernel replaces the return address in x30 there, so
    nothing before may have used it: what signs it or keeps it.
    """
    sunk = 0
    limit = max(code.limit, code.address + 1)
    for _, (address, word) in zip(range(PREFIX_LIMIT), arm64_words.words(code), strict=False):
        if address >= limit:
            return
        if arm64_words.is_simulated(word):
            yield Place(address, word, sunk, 0)
            return
        if not arm64_words.is_refused(word):
            yield Place(address, word, sunk, 1 if word == arm64_words.NOP else 2)
        after = arm64_words.effect(word)
        if after is None or f"x{after.register}" in keep:
            return
        if returns and (after.sinks or after.link):
            return
        sunk += after.sinks


def _obstacle(code: Code, place: Place) -> str:
    """Why a probe at ``place`` could fire other than once a call, or ``""``."""
    start, to = code.address, place.address
    end = start + len(code.code)
    hidden = ""
    for address, word in arm64_words.words(code):
        distance = arm64_words.jump(word)
        if distance is not None:
            target = address + distance
            if start < target <= to:
                return f"the jump at +{address - start} leads to +{target - start}"
            if not start <= target < end and address != to:
                hidden = "a jump leaves the function and might lead back"
        elif arm64_words.is_br(word):
            hidden = "a jump whose targets are unknown might lead back"
    return hidden
