"""For https://www.speedscope.app, whose schema is file-format-schema.json there: of calls a profile
for each thread, goroutine or other stack, in which they begin and end; of stacks one with their
weights. Where callers were sent with calls, these are shown around them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, islice
from operator import le
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

import lbtrace
from lbtrace.answers.call_paths import CallPaths, Path
from lbtrace.model import Aggregates, Call, Plan, Summary, Thread
from lbtrace.sinks.base import Sink
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.stacks import StackRows
from lbtrace.tables.stacks import Step, steps
from lbtrace.text import clean, to_json

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch

_Key = TypeVar("_Key")
_Made = TypeVar("_Made")

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

EVENTS = '"events":[]'
"""Where the events of a thread are in the document."""

WRITTEN = 1 << 14
"""Events of a thread that are written together."""


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
    """A thread: each event has a time and the number of a function, which is inverted at its end.
    No event is before the one before it, whatever its time is."""

    name: str
    path: Path = ()
    times: array[int] = field(default_factory=lambda: array("Q"))
    numbers: array[int] = field(default_factory=lambda: array("i"))

    def add(self, time: int, number: int) -> None:
        """Add an event."""
        self.times.append(time)
        self.numbers.append(number)

    def go(self, path: Path, time: int, frames: _Frames) -> None:
        """End what does not lead to a path, and begin what else does."""
        same = 0
        while same < min(len(path), len(self.path)) and path[same] == self.path[same]:
            same += 1
        for step in reversed(self.path[same:]):
            self.add(time, ~frames[step])
        for step in path[same:]:
            self.add(time, frames[step])
        self.path = path

    def write(self, stream: Any, since: int) -> None:
        """Write the events as speedscope knows them, with times ``since`` one."""
        heads = {
            number: f'{{"type":"{"C" if number < 0 else "O"}","frame":{max(number, ~number)},"at":'
            for number in set(self.numbers)
        }
        times: Iterable[int] = self.times
        if not all(map(le, chain([since], times), times)):
            times = islice(accumulate(times, max, initial=since), 1, None)
        between, pairs = "", zip(times, self.numbers, strict=True)
        while some := [f"{heads[n]}{time - since}}}" for time, n in islice(pairs, WRITTEN)]:
            stream.write(between + ",".join(some))
            between = ","


class _Memo(dict[_Key, _Made]):
    """What ``make`` returns for each key, made once."""

    def __init__(self, make: Callable[[_Key], _Made]) -> None:
        self._make = make

    def __missing__(self, key: _Key) -> _Made:
        made = self[key] = self._make(key)
        return made


class Speedscope(Sink):
    """See the module. It holds all until the trace has ended; points are not shown."""

    name = "speedscope"
    takes_fast_batches = True

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._frames = _Frames()
        self._paths = CallPaths() if plan.stack_depth else None
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._threads: dict[int, str] = {}
        self._first = 0
        self._numbers = _Memo(self._number)
        self._lanes_of = _Memo(self._lane)

    def thread(self, thread: Thread) -> None:
        """Keep the name."""
        self._threads[thread.tid] = thread.name

    def entry(self, call: Call) -> None:
        """Begin it, and what led to it."""
        if not self._lanes:
            self._first = call.start
        now = self._lanes_of[call.pid, call.tid, call.goroutine]
        if self._paths:
            now.go(self._paths.enter(call).path, call.start, self._frames)
        else:
            now.add(call.start, self._frames[call.name, call.binary])

    def exit(self, call: Call) -> None:
        """End it, and what led to it from the call around it."""
        now = self._lanes_of[call.pid, call.tid, call.goroutine]
        end = 0 if call.duration is None else call.start + call.duration
        if not self._paths:
            now.add(end, ~self._frames[call.name, call.binary])
            return
        ended, around = self._paths.leave(call), self._paths.innermost(call)
        if len(around) < len(ended.path):
            now.go(around, end, self._frames)

    def takes(self, fast_batch: FastBatch) -> bool:
        return bool(self._lanes)

    def fast_batch(self, fast_batch: FastBatch) -> None:
        lanes, numbers = self._lanes_of, self._numbers
        for time, probe, lane in fast_batch.shown():
            now = lanes[lane]
            now.times.append(time)
            now.numbers.append(numbers[probe])

    def point(self, point: Call) -> None:
        """It takes no time."""

    def end(self, summary: Summary) -> None:
        """Write all."""
        profiles = [
            {
                **{"type": "evented", "name": clean(each.name), "unit": "nanoseconds"},
                **{"startValue": 0, "endValue": max(0, max(each.times) - self._first)},
                "events": [],
            }
            for each in self._lanes.values()
        ]
        before, *others = document(self._frames, profiles).split(EVENTS)
        self._stream.write(before)
        for each, after in zip(self._lanes.values(), others, strict=True):
            self._stream.write(EVENTS[:-1])
            each.write(self._stream, self._first)
            self._stream.write(EVENTS[-1] + after)

    def _number(self, probe: int) -> int:
        """The number that events of a probe have in those of a thread."""
        of = self._plan.probes[probe]
        frame = self._frames[self._plan.functions[of.function].name, self._plan.path_of(of.binary)]
        return frame if of.role == "opens" else ~frame

    def _lane(self, key: tuple[int, int, int]) -> _Lane:
        """That of a process, a thread and a goroutine, 0 for none."""
        pid, tid, goroutine = key
        name = f"{self._threads.get(tid, '')} {goroutine or tid}".strip()
        return self._lanes.setdefault((pid, goroutine or -tid), _Lane(name))


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
