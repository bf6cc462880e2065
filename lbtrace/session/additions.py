"""What is added to a plan while its trace runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from lbtrace.model import Addition, Plan

if TYPE_CHECKING:
    from lbtrace.session.attached import Attached
    from lbtrace.session.growth import Growth
    from lbtrace.session.learned_places import LearnedPlaces
    from lbtrace.session.request import Request


class Additions:
    """The additions to ``plan``: markers that are ``later`` asked for, and where calls are seen to
    return. The first look is at ``processes``, those that run already; what cannot be added is
    said."""

    def __init__(
        self,
        plan: Plan,
        later: Request | None,
        attached: Attached,
        processes: Iterable[int],
        say: Callable[[str], None],
    ) -> None:
        self._growth: Growth | None = None
        self._places: LearnedPlaces | None = None
        if later is not None:
            from lbtrace.session.growth import watch  # imported here: the others do without

            self._growth = watch(later, attached, processes, say)
        if attached.specs.learns_places:
            from lbtrace.session.learned_places import LearnedPlaces  # as above

            self._places = LearnedPlaces(plan, attached)

    def fileno(self) -> int:
        """Readable as soon as there may be something in other files; -1 if that is not watched."""
        return self._growth.fileno() if self._growth else -1

    def close(self) -> None:
        """Add nothing more; what was added stays."""
        if self._growth:
            self._growth.close()

    def look(self, plan: Plan, say: Callable[[str], None]) -> Iterator[Addition]:
        """Yield what is added to ``plan``, after it was attached."""
        for addition in self._growth.look(plan, say) if self._growth else ():
            plan = plan.grown(addition)
            yield addition
        if self._places:
            yield from self._places.look(plan)
