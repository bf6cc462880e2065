"""Chooses the cheapest safe site for a uprobe in an arm64 function.

The kernel simulates branches and ``adr``; what else it accepts it
single-steps, at a multiple of the cost (`lbtrace.machine.aarch64.instructions`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from lbtrace.machine.aarch64 import instructions
from lbtrace.machine.code import Code, FloatSpills, Read
from lbtrace.machine.interface import UNFIT, SitePlanner
from lbtrace.model import Fetch, Site

PREFIX_LIMIT = 16
"""Instructions looked at before the search for a cheap place is given up."""


class Candidate(NamedTuple):
    """An instruction at which a probe could be placed; ``sunk`` is how far the stack pointer lies
    below its value at entry, ``cost`` is 0 for a simulated instruction."""

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


class Planner(SitePlanner):
    """Chooses probe places."""

    def choose(
        self,
        code: Code,
        keep: Collection[str],
        *,
        returns: bool,
        begins: Callable[[], bool] = lambda: True,
        never_back: Callable[[int], bool] = lambda target: False,
    ) -> Site | None:
        """See `lbtrace.machine.SitePlanner.choose`."""
        obstacle = ""
        if _may_be_exclusive(code) and not begins():
            return None
        places = sorted(_prefix(code, keep, returns=returns), key=lambda place: place.cost)
        for place in places:
            found = _why_unsafe(code, place) if place.address != code.address else ""
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

    def point(self, code: Code) -> Site | str:
        """See `lbtrace.machine.SitePlanner.point`."""
        if _may_be_exclusive(code):
            return "a probe there might make the store that follows fail, which is exclusive"
        return self.choose(code, (), returns=False) or UNFIT

    def spills(self, code: Code, read: Read) -> Iterator[FloatSpills]:
        """See `lbtrace.machine.SitePlanner.spills`; not looked for on arm64."""
        return iter(())

    def results(
        self, code: Code, returns: Collection[int], read: Read
    ) -> dict[str, tuple[Fetch, int]]:
        """See `lbtrace.machine.SitePlanner.results`; not looked for on arm64."""
        return {}


def _may_be_exclusive(code: Code) -> bool:
    """Whether a store whose load comes before ``code`` may follow: a breakpoint between them
    would make it fail each time."""
    for _, word in instructions.words(code):
        if instructions.is_store_exclusive(word):
            return True
        if instructions.is_load_exclusive(word):
            return False
    return False


def _prefix(code: Code, keep: Collection[str], *, returns: bool) -> Iterator[Candidate]:
    """The places of the straight-line start, in order, that the kernel accepts.

    With ``returns`` the kernel replaces the return address in x30 there, so
    nothing before may have used it: what signs it or keeps it.
    """
    sunk = 0
    limit = max(code.limit, code.address + 1)
    for _, (address, word) in zip(range(PREFIX_LIMIT), instructions.words(code), strict=False):
        if address >= limit:
            return
        if instructions.is_simulated(word):
            yield Candidate(address, word, sunk, 0)
            return
        if not instructions.is_refused(word):
            yield Candidate(address, word, sunk, 1 if word == instructions.NOP else 2)
        after = instructions.effect(word)
        if after is None or f"x{after.register}" in keep:
            return
        if returns and (after.sinks or after.link):
            return
        sunk += after.sinks


def _why_unsafe(code: Code, place: Candidate) -> str:
    """Why a probe at ``place`` could fire other than once a call, or ``""``."""
    start, to = code.address, place.address
    end = start + len(code.code)
    hidden = ""
    for address, word in instructions.jumps(code):
        distance = instructions.jump(word)
        if distance is not None:
            target = address + distance
            if start < target <= to:
                return f"the jump at +{address - start} leads to +{target - start}"
            if not start <= target < end and address != to:
                hidden = "a jump leaves the function and might lead back"
        elif instructions.is_br(word):
            hidden = "a jump whose targets are unknown might lead back"
    return hidden
