"""The Trace Event Format of Chrome, which Perfetto's UI and speedscope open as well.

"Trace Event Format", JSON object format: a complete event (``X``) for each call, when it has ended;
metadata events name processes and threads; losses and points are instant events of their thread.
What a forked process continues of its parent's calls are slices from the fork on, called
``work (forked)``. Times are µs of CLOCK_MONOTONIC, with decimals.

A call that was left without returning ends where its thread is next seen, or where its goroutine
ends. A call whose end was not seen has only a beginning (``B``): the viewers draw it to the end of
the trace and say that it did not finish.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from lbtrace.model import (
    Argument,
    Call,
    Datum,
    Event,
    Fork,
    Form,
    InheritedCall,
    Loss,
    Plan,
    Summary,
    Thread,
)
from lbtrace.sinks.base import keys_of, lane, own_lane
from lbtrace.sinks.chrome_lanes import GOROUTINES, Lanes
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.line_sink import Lines, LineSink, Piece, Pieces
from lbtrace.text import to_json
from lbtrace.values import text

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch

_HELD = 1024
"""About how many events are written together: `entry` checks whether it is time."""

_BETWEEN = ",\n"
"""What stands between two events."""


class Chrome(LineSink):
    """See the module."""

    name = "chrome"
    nests = False
    quotes_addresses = quotes_large = True

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._held: list[str] = []
        self._unended: dict[tuple[int, int], list[tuple[Call, str, int]]] = {}
        self._unnamed: dict[int, str] = {}
        self._named: set[int] = set()
        self._quoted = _Quoted()
        self._keys = _Keys()
        self._lanes = Lanes(plan, partial(self._name, "thread_name"))
        self._separator = '{"traceEvents":[\n'

    def grow(self, plan: Plan) -> None:
        super().grow(plan)
        self._lanes.grow(plan)

    def thread(self, thread: Thread) -> None:
        name = f"{thread.name} ({thread.inside} inside)" if thread.inside else thread.name
        self._name("thread_name", thread.pid, thread.tid, name)
        if thread.pid == thread.tid:
            self._named.add(thread.pid)
            self._name("process_name", thread.pid, thread.tid, name)

    def entry(self, call: Call) -> None:
        if self._unended:
            self._end_left(call, call.start)
        if call.pid not in self._named:
            self._unnamed.setdefault(call.pid, call.binary)

    def exit(self, call: Call) -> None:
        if call.duration is None:
            self._leave(call, call.name, call.start)
            return
        if self._unended:
            self._end_left(call, call.start + call.duration)
        self._slice(call, call.name, call.start, call.duration)
        if len(self._held) >= _HELD:
            self.flush()

    def left(self, event: Event) -> None:
        if self._unended:
            self._end_left(event, event.time)

    def _leave(self, call: Call, name: str, start: int) -> None:
        """Note a call whose end in time is not known before the thread is seen again."""
        self._unended.setdefault((call.pid, lane(call)), []).append((call, name, start))

    def _slice(self, call: Call, name: str, start: int, duration: int) -> None:
        """Write a call that has ended."""
        args = ",".join(filter(None, (self._beginning(call), self._ending(call))))
        self._held.append(
            f'{{"ph":"X","name":{self._quoted[name]},"ts":{_micro(start)},"dur":{_micro(duration)}'
            f',"pid":{call.pid},"tid":{self._tid(call)},"args":{{{args}}}}}'
        )

    def _beginning(self, call: Call) -> str:
        """The members that a call begins with."""
        args = self.arguments(call.probe, call.args)
        if self.layout.shows_cpu:
            args += f"{',' if args else ''}{self._extra(call, 'cpu', call.cpu)}"
        return args

    def _ending(self, call: Call) -> str:
        """The members that say how a call has ended."""
        names = _names(call.args)
        if call.end == "returned":
            members = self._result(names, call.result)
        else:
            members = self._ended(names, call.end)
        extra = {"end_cpu": call.end_cpu} if self.layout.shows_cpu else {}
        if call.blocked is not None:
            extra |= {"blocked": call.blocked, "runnable": call.runnable}
        ending = (self._extra(call, name, number) for name, number in extra.items())
        return ",".join(filter(None, (members, *ending)))

    @staticmethod
    def _extra(call: Call, name: str, number: int | None) -> str:
        """A number as a member beside the arguments, of another name than these."""
        return f"{to_json(keys_of([*_names(call.args), name])[-1])}:{to_json(number)}"

    def arguments(self, probe: int, arguments: Sequence[Argument]) -> str:
        """See `LineSink`."""
        keys = self._keys[_names(arguments)]
        return ",".join([key + _value(a.value) for key, a in zip(keys, arguments, strict=False)])

    def _ended(self, names: tuple[str, ...], end: str) -> str:
        """The member that says how a call with arguments of these names has ended."""
        return f'{self._keys[names][END]}"{end}"'

    def takes(self, fast_batch: FastBatch) -> bool:
        return not any(
            each.key in self._unended
            or (each.goroutine and not self._lanes.is_goroutine(each.goroutine))
            for each in fast_batch.lanes
        )

    def fast_batch(self, fast_batch: FastBatch) -> None:
        for each in fast_batch.lanes:
            pid, _ = each.key
            if each.goroutine:
                self._lanes.number(pid, each.goroutine)  # native code does as this
            if each.first is not None and pid not in self._named:
                probe = self._plan.probes[fast_batch.probe(each.first)]
                self._unnamed.setdefault(pid, self._plan.path_of(probe.binary))
        text, lines = self.native_lines(fast_batch)
        if lines:
            self._held.append(text.removesuffix(_BETWEEN))
        self.flush()

    def lines(self, number: int, arguments: Pieces, result: Pieces) -> Lines:
        """See `LineSink`."""
        from lbtrace.sinks import lines

        name = to_json(self._plan.functions[self._plan.probes[number].function].name)
        call: list[Piece | str] = [
            *(f'{{"ph":"X","name":{name},"ts":', lines.START_MICRO),
            *(',"dur":', lines.ELAPSED_MICRO, ',"pid":', lines.PID),
            *(',"tid":', lines.lane_number(GOROUTINES), ',"args":{', *arguments),
        ]
        names = self._parameters(number)
        returned = [*call, *result, "}}" + _BETWEEN]
        tail = [*call, "," if names else "", self._ended(names, "tail"), "}}" + _BETWEEN]
        return Lines((), returned, returned, tail, tail)

    def value(self, value: Datum) -> str:
        """See `LineSink`."""
        return _value(value)

    def result(self, probe: int, result: Datum) -> str:
        """See `LineSink`."""
        names = self._parameters(probe)
        member = self._result(names, result)
        return f",{member}" if member and names else member

    def _parameters(self, probe: int) -> tuple[str, ...]:
        function = self._plan.functions[self._plan.probes[probe].function]
        return tuple([each.name for each in function.parameters])

    def _result(self, names: tuple[str, ...], result: Datum) -> str:
        """The member of a result beside arguments of these names."""
        if result is None:
            return ""
        return f"{self._keys[names][RESULT]}{_value(result)}"

    def point(self, point: Call) -> None:
        if self._unended:
            self._end_left(point, point.start)
        if point.pid not in self._named:
            self._unnamed.setdefault(point.pid, point.binary)
        args = self.arguments(point.probe, point.args)
        if self.layout.shows_cpu:
            args += f"{',' if args else ''}{self._extra(point, 'cpu', point.cpu)}"
        self._held.append(
            f'{{"ph":"i","s":"t","name":{self._quoted[point.name]},"ts":{_micro(point.start)}'
            f',"pid":{point.pid},"tid":{self._tid(point)},"args":{{{args}}}}}'
        )
        if len(self._held) >= _HELD:
            self.flush()

    def loss(self, loss: Loss) -> None:
        self._held.append(
            f'{{"ph":"i","s":"t","name":"events lost","ts":{_micro(loss.time)}'
            f',"pid":{loss.pid},"tid":{self._tid(loss)},"args":{{"count":{loss.count},"entries":{loss.entries}}}}}'
        )

    def fork(self, fork: Fork) -> None:
        """Calls that are continued are slices of another name, from the fork on."""
        self._end_left(fork, fork.time)
        for call in fork.calls:
            if fork.pid not in self._named:
                self._unnamed.setdefault(fork.pid, call.binary)

    def inherited(self, call: InheritedCall) -> None:
        if call.until is None:
            self._leave(call, _continued(call), call.forked)
        else:
            self._end_left(call, call.until)
            self._slice(call, _continued(call), call.forked, call.until - call.forked)

    def flush(self) -> None:
        if self._held:
            self._stream.write(self._separator + _BETWEEN.join(self._held))
            self._held.clear()
            self._separator = _BETWEEN

    def end(self, summary: Summary) -> None:
        for pid, binary in self._unnamed.items():
            if pid not in self._named:
                self._name("process_name", pid, pid, PurePath(binary).name)
        for call, name, start in sorted(chain(*self._unended.values()), key=lambda left: left[2]):
            self._held.append(
                f'{{"ph":"B","name":{self._quoted[name]},"ts":{_micro(start)},"pid":{call.pid}'
                f',"tid":{self._tid(call)},"args":{{{self._beginning(call)}}}}}'
            )
        self.flush()
        opening = "" if self._separator == _BETWEEN else self._separator
        other = {
            "program": ", ".join(PurePath(binary.path).name for binary in self._plan.traced),
            "calls": summary.calls,
            "lost": msgspec.structs.asdict(summary.losses),
            "interrupted": summary.interrupted,
            **({"damaged": True} if summary.damaged else {}),
            **({} if summary.losses_known else {"lost_known": False}),
        }
        self._stream.write(f'{opening}\n],"displayTimeUnit":"ns","otherData":{to_json(other)}}}\n')

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        self._held.append(
            f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"args":{{"name":{to_json(name)}}}}}'
        )

    def _tid(self, event: Call | Event | Loss | Fork) -> int:
        """What stands for the thread of an event: see `Lanes`."""
        own = own_lane(event)
        return self._lanes.number(event.pid, own) if own else event.tid

    def _end_left(self, event: Call | Event | Loss | Fork, time: int) -> None:
        """End the calls that were left where an event happens."""
        for call, name, start in self._unended.pop((event.pid, lane(event)), ()):
            self._slice(call, name, start, time - start)


class _Quoted(dict[str, str]):
    """Names as JSON strings, each made once."""

    def __missing__(self, name: str) -> str:
        quoted = self[name] = to_json(name)
        return quoted


class _Keys(dict[tuple[str, ...], list[str]]):
    """The members of arguments by their names, and at `RESULT` and `END` those beside them, because
    viewers join the members of a call's two events. Each list is made once."""

    def __missing__(self, names: tuple[str, ...]) -> list[str]:
        common = [keys_of([*names, own])[-1] for own in ("result", "end")]
        keys = self[names] = [to_json(key) + ":" for key in [*keys_of(names), *common]]
        return keys


RESULT, END = -2, -1


def _names(arguments: Iterable[Argument]) -> tuple[str, ...]:
    return tuple([argument.name for argument in arguments])


def _continued(call: Call) -> str:
    """What a call is called where a forked process continues it."""
    return f"{call.name} (forked)"


def _micro(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _value(datum: Datum) -> str:
    """A value as JSON. The viewers compute in doubles, so an integer that
    does not fit in one is a string; so is whatever is not a number."""
    if type(datum) is int:
        return str(datum) if -(1 << 53) <= datum <= 1 << 53 else f'"{datum}"'
    if isinstance(datum, bool):
        return "true" if datum else "false"
    if not isinstance(datum, Form):
        return to_json(text(datum))
    return f'"{datum.text()}"' if datum.is_plain else to_json(datum.label())
