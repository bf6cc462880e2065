"""What the events of a capture say of lost ones: at least so many were, if its ``LOSS`` chunk is
missing or came before them.

The kernel counts an event for which the ring has no room, and has the thread report it before its
next one. So reports never say more than a later ``LOSS`` chunk, and are no losses beside it. The
other causes are in that chunk only.
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import CLOSE, OPEN, POINT, Batch, Losses
from lbtrace.model.wire import find_reports


class ReportedLosses:
    """The sum of what the reports in batches say."""

    def __init__(self) -> None:
        self._lost = [0, 0, 0, 0]

    def note(self, batch: Batch) -> bool:
        """Add the reports of a batch; whether it has any."""
        found = False
        for _, lost in find_reports(batch):
            self._lost = [sum(each) for each in zip(self._lost, lost, strict=True)]
            found = True
        return found

    def at_least(self, losses: Losses) -> Losses:
        """Return the losses that a ``LOSS`` chunk counts, raised to what was reported."""
        lost = self._lost
        entries = max(losses.ring_full_entry, lost[OPEN])
        returns = max(losses.ring_full_return, lost[CLOSE])
        points = max(losses.ring_full_point, lost[POINT])
        # They are among either in the chunk, where there is one.
        unknown = max(0, lost[0] + lost[CLOSE] + lost[POINT] - returns - points)
        return replace(
            losses,
            ring_full_entry=entries,
            ring_full_return=returns,
            ring_full_point=points + unknown,
        )
