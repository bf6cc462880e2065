"""The Trace Event Format of Chrome, which Perfetto's UI and speedscope open as well.

"Trace Event Format", JSON object format: duration events (``B``, ``E``) in
the order they occurred, so that results join the arguments of their call;
ends are named as well, for speedscope matches them by name; metadata events
name processes and threads; a loss is an instant event of its thread. Times are
µs of CLOCK_MONOTONIC, with decimals.

A call that was left without returning ends where its thread is next seen. A
call of which no end was seen has no ``E``: the viewers draw it to the end of
the trace and say that it did not finish.
"""

from __future__ import annotations

from json import dumps
from pathlib import PurePath
from typing import Any

import msgspec

from lbtrace.model import Address, Call, Datum, Loss, Plan, Summary, Text, Thread
from lbtrace.sinks.base import Sink, lane
from lbtrace.values import characters, text

_HELD = 1024
"""How many events are written together, about: entries look whether it is time."""


class Chrome(Sink):
    """See the module."""

    name = "chrome"
    streams = False

    def __init__(self, stream: Any, plan: Plan, *, color: bool = False) -> None:
        super().__init__(stream, plan, color=color)
        self._held: list[str] = []
        self._unended: dict[tuple[int, int], list[tuple[str, str]]] = {}
        self._unnamed: dict[int, str] = {}
        self._named: set[int] = set()
        self._quoted = _Quoted()
        self._separator = '{"traceEvents":[\n'

    def thread(self, thread: Thread) -> None:
        name = f"{thread.name} ({thread.inside} inside)" if thread.inside else thread.name
        self._name("thread_name", thread.pid, thread.tid, name)
        if thread.pid == thread.tid:
            self._named.add(thread.pid)
            self._name("process_name", thread.pid, thread.tid, name)

    def entry(self, call: Call) -> None:
        if self._unended:
            self._end_left(call.pid, lane(call), call.start)
        if call.pid not in self._named:
            self._unnamed.setdefault(call.pid, call.binary)
        quoted = self._quoted
        args = ",".join([quoted[a.name] + ":" + _value(a.value) for a in call.args])
        start, held = call.start, self._held
        held.append(
            f'{{"ph":"B","name":{quoted[call.name]},"ts":{start // 1000}.{start % 1000:03d}'
            f',"pid":{call.pid},"tid":{call.goroutine or call.tid},"args":{{{args}}}}}'
        )
        if len(held) >= _HELD:
            self.flush()

    def exit(self, call: Call) -> None:
        tid = call.goroutine or call.tid
        if call.duration is None:
            # Its place in time is not known before the thread is seen again.
            self._unended.setdefault((call.pid, tid), []).append((call.name, call.end))
            return
        end = call.start + call.duration
        if self._unended:
            self._end_left(call.pid, tid, end)
        result = "" if call.result is None else f',"args":{{"result":{_value(call.result)}}}'
        self._held.append(
            f'{{"ph":"E","name":{self._quoted[call.name]},"ts":{end // 1000}.{end % 1000:03d}'
            f',"pid":{call.pid},"tid":{tid}{result}}}'
        )

    def loss(self, loss: Loss) -> None:
        self._held.append(
            f'{{"ph":"i","s":"t","name":"events lost","ts":{_micro(loss.time)}'
            f',"pid":{loss.pid},"tid":{lane(loss)},"args":{{"count":{loss.count},"entries":{loss.entries}}}}}'
        )

    def flush(self) -> None:
        if self._held:
            self._stream.write(self._separator + ",\n".join(self._held))
            self._held.clear()
            self._separator = ",\n"

    def end(self, summary: Summary) -> None:
        for pid, binary in self._unnamed.items():
            if pid not in self._named:
                self._name("process_name", pid, pid, PurePath(binary).name)
        self.flush()
        start = "" if self._separator == ",\n" else self._separator
        other = {
            "program": ", ".join(PurePath(binary.path).name for binary in self._plan.binaries),
            "calls": summary.calls,
            "lost": msgspec.structs.asdict(summary.losses),
            "interrupted": summary.interrupted,
        }
        self._stream.write(f'{start}\n],"displayTimeUnit":"ns","otherData":{dumps(other)}}}\n')

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        self._held.append(
            f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"args":{{"name":{dumps(name)}}}}}'
        )

    def _end_left(self, pid: int, tid: int, time: int) -> None:
        for name, end in self._unended.pop((pid, tid), ()):
            self._held.append(
                f'{{"ph":"E","name":{self._quoted[name]},"ts":{_micro(time)},"pid":{pid}'
                f',"tid":{tid},"args":{{"end":"{end}"}}}}'
            )


class _Quoted(dict[str, str]):
    """Names as JSON strings, each made once."""

    def __missing__(self, name: str) -> str:
        quoted = self[name] = dumps(name)
        return quoted


def _micro(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _value(datum: Datum) -> str:
    """A value as JSON. The viewers compute in doubles, so an integer that
    does not fit in one is a string; so is whatever is not a number."""
    if type(datum) is int:
        return str(datum) if -(1 << 53) <= datum <= 1 << 53 else f'"{datum}"'
    if isinstance(datum, bool):
        return "true" if datum else "false"
    if isinstance(datum, Address):
        return f'"{datum:#x}"'
    if isinstance(datum, Text) and not datum.cut:
        return dumps(characters(datum))
    return dumps(text(datum))
