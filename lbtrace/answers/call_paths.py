"""By which functions calls were reached: those that are traced, and where callers were sent also
all between them."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from lbtrace.model import Call, Frame
from lbtrace.tables.stacks import OUTERMOST, Step, steps

Path: TypeAlias = tuple[Step, ...]
"""From the outermost function on."""


class Open(Struct):
    """An open call with its ``path``. ``inner`` is how long the traced calls in it took, in ns."""

    call: Call
    path: Path
    inner: int = 0

    @property
    def own(self) -> int:
        """How long it took itself; 0 where its end was not seen."""
        return max((self.call.duration or 0) - self.inner, 0)


class CallPaths:
    """Follows the open calls of each thread, goroutine or other stack."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, int], list[Open]] = {}

    def enter(self, call: Call) -> Open:
        """Note a call that has begun, and return it with its path."""
        lane = self._lanes.setdefault((call.pid, call.goroutine or call.tid), [])
        lane.append(made := Open(call, _path(call, lane[-1] if lane else None)))
        return made

    def leave(self, call: Call) -> Open:
        """Return a call of a thread that has ended: the innermost one, but of those that cross."""
        key = call.pid, call.goroutine or call.tid
        lane = self._lanes[key]
        at = next(n for n in reversed(range(len(lane))) if lane[n].call is call)
        ended = lane.pop(at)
        if at and at == len(lane):
            lane[-1].inner += ended.inner if call.duration is None else call.duration
        if not lane:
            del self._lanes[key]
        return ended

    def innermost(self, call: Call) -> Path:
        """Return the path of the innermost open call of the thread of a call."""
        lane = self._lanes.get((call.pid, call.goroutine or call.tid))
        return lane[-1].path if lane else ()


def _path(call: Call, around: Open | None) -> Path:
    own = (call.name, call.binary)
    callers = call.callers
    if callers is None:
        return (*around.path, own) if around else (own,)
    frames: list[Frame] = []
    for frame in callers.frames:
        if around and not frame.inlined and (frame.name, frame.binary) == around.path[-1]:
            return (*around.path, *steps(frames), own)
        frames.append(frame)
    if callers.end == OUTERMOST or not around:
        return (*steps(frames, callers.end), own)
    return (*around.path, *steps(frames, callers.end), own)
