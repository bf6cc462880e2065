"""For https://www.speedscope.app, whose schema is file-format-schema.json there: of calls a profile
for each thread, goroutine or other stack, in which they begin and end; of stacks one with their
weights. Where callers were sent with calls, these are shown around them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

import lbtrace
from lbtrace.answers.call_paths import CallPaths, Path
from lbtrace.model import Aggregates, Call, Plan, Summary, Thread
from lbtrace.sinks.base import Sink, lane
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.stacks import StackRows
from lbtrace.tables.stacks import Step, steps
from lbtrace.text import clean, to_json

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class _Frames(dict[Step, int]):
    """The numbers of functions."""

    def __missing__(self, step: Step) -> int:
        number = self[step] = len(self)
        return number

    def list(self) -> list[dict[str, str]]:
        """Return them as speedscope knows them."""
        return [
            {"name": clean(name), **({"file": clean(file)} if file else {})} for name, file in self
        ]


class _Lane(Struct):
    """A thread: each event is a time and the number of a function, which is inverted at its end."""

    name: str
    path: Path = ()
    events: array[int] = field(default_factory=lambda: array("q"))
    last: int = 0

    def go(self, path: Path, time: int, frames: _Frames) -> None:
        """End what does not lead to a path, and begin what else does."""
        self.last = time = max(time, self.last)
        same = 0
        while same < min(len(path), len(self.path)) and path[same] == self.path[same]:
            same += 1
        for step in reversed(self.path[same:]):
            self.events.extend((time, ~frames[step]))
        for step in path[same:]:
            self.events.extend((time, frames[step]))
        self.path = path

    def list(self) -> Iterator[dict[str, Any]]:
        """Yield the events as speedscope knows them."""
        for at in range(0, len(self.events), 2):
            time, number = self.events[at], self.events[at + 1]
            is_end = number < 0
            frame = ~number if is_end else number
            yield {"type": "C" if is_end else "O", "frame": frame, "at": time}


class Speedscope(Sink):
    """See the module. It holds all until the trace has ended; points are not shown."""

    name = "speedscope"

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._frames = _Frames()
        self._paths = CallPaths()
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._threads: dict[int, str] = {}
        self._first: int | None = None

    def thread(self, thread: Thread) -> None:
        """Keep the name."""
        self._threads[thread.tid] = thread.name

    def entry(self, call: Call) -> None:
        """Begin it, and what led to it."""
        if self._first is None:
            self._first = call.start
        path = self._paths.enter(call).path
        self._lane(call).go(path, call.start - self._first, self._frames)

    def exit(self, call: Call) -> None:
        """End it, and what led to it from the call around it."""
        ended, now = self._paths.leave(call), self._lane(call)
        around = self._paths.innermost(call)
        end = now.last if call.duration is None else call.start + call.duration - (self._first or 0)
        if len(around) < len(ended.path):
            now.go(around, end, self._frames)

    def point(self, point: Call) -> None:
        """It takes no time."""

    def end(self, summary: Summary) -> None:
        """Write all."""
        profiles = [
            {
                **{"type": "evented", "name": clean(each.name), "unit": "nanoseconds"},
                **{"startValue": 0, "endValue": each.last, "events": [*each.list()]},
            }
            for each in self._lanes.values()
        ]
        self._stream.write(document(self._frames, profiles))

    def _lane(self, call: Call) -> _Lane:
        key = call.pid, lane(call)
        found = self._lanes.get(key)
        if found is None:
            name = f"{self._threads.get(call.tid, '')} {key[1]}".strip()
            found = self._lanes[key] = _Lane(name)
        return found


class SpeedscopeStacks(StackRows):
    """See the module."""

    name = "speedscope"

    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Write the stacks."""
        rows, frames = self.rows(found)[: self.layout.top], _Frames()
        samples = [[frames[step] for step in steps(row.frames, row.end)] for row in rows]
        weights = [row.weight for row in rows]
        unit = "nanoseconds" if rows and rows[0].unit else "none"
        profile = {
            **{"type": "sampled", "name": "stacks", "unit": unit},
            **{"startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights},
        }
        self._stream.write(document(frames, [profile]))


def document(frames: _Frames, profiles: Sequence[dict[str, Any]]) -> str:
    """Return a file for speedscope."""
    made = {
        **{"$schema": SCHEMA, "exporter": f"lbtrace@{lbtrace.__version__}"},
        **{"shared": {"frames": frames.list()}, "profiles": profiles, "activeProfileIndex": 0},
    }
    return to_json(made, separators=(",", ":")) + "\n"
