"""JSON Lines: an object for every finished call, thread, loss, and one for the end.

A call: ``{"type": "call", "name", "args": [{"name", "value"}…], "result",
"start", "duration", "pid", "tid", "depth", "end"}``, times in ns, in the
order in which calls end; ``goroutine`` where there is one, or ``stack``, the
address of a stack the program made itself; where several binaries are traced,
``binary`` is the path of the function's; with ``--cpu``, ``cpu`` is the processor on which the call
began and ``end_cpu`` that on which it returned, or null; with ``--off-cpu``, ``blocked`` and
``runnable`` are what of ``duration`` the thread did not run, where that is known; where ``end`` is
``tail``, ``leads_to`` is the function to which it jumped. ``duration`` is null where the end was
not seen. Integers are numbers (up to 128 bits: a reader that turns them into doubles loses digits),
truth values true and
false, characters and text strings (bytes that are not UTF-8 lone surrogates
from U+DC80 on), addresses strings in hexadecimal, functions their names,
records objects, arrays arrays, maps arrays of pairs, variants of Rust's
enumerations strings or, where they carry values, objects with one member.
A value that could not be read is null, with its reason beside it in
``unreadable``. Text that was cut has its true length in bytes beside it, in
``length``; null where it is unknown. A pointer to text, or one that ``--depth`` asks to follow, is
an address where that was not read, with the reason beside it in ``unfollowed``. Arrays have the
number of their elements in ``length``. Records with more members than are shown have ``more``, the
number of the others. Of members with the same name, as those without any, the second gets ``#2``
after its name, and so on. Where this concerns parts of a value, ``parts`` beside it has an object
with these members for each, by its JSON Pointer (RFC 6901): ``{"/name": {"length": 200}}``.

With ``--stack``, ``callers`` of a call or point is ``{"frames": [{"name", "offset", "binary",
"guessed"}…], "end"}``, the innermost first: ``offset`` is from the start of the function, or where
``name`` is empty, in the file; ``end`` says why there are no further ones: ``outermost``, ``limit``
or what was in the way.

A point, a place inside of a function that the program came by: ``{"type": "point", "name",
"args", "time", "pid", "tid", "depth"}``, with ``goroutine``, ``stack``, ``binary`` and
``cpu`` as calls.

A thread, before its first call and whenever its name changes: ``{"type": "thread",
"pid", "tid", "name", "time"}``; ``inside`` where it has another number in a
pid namespace of its own.

A loss: ``{"type": "loss", "pid", "tid", "depth", "time", "count", "entries", "goroutine"}``:
``count`` events are missing here, of which ``entries`` began calls.

A process that was forked inside of calls, before its first own call: ``{"type": "fork", "pid",
"tid", "depth", "time", "parent", "parent_pid"}``, with ``goroutine`` or ``stack`` as calls.
``time`` is when it was forked, ``parent`` the thread that did so, and ``depth`` the number of its
open calls, inside of which the process continues. When it returns from one of these, or is seen
to have left one: ``{"type": "inherited", "name", "args", "result", "start", "until", "forked",
"maker", "pid", "tid", "depth", "end"}``, with ``end_cpu`` and all else as a call. It is
none: the thread ``maker`` made the call, at ``start``, which has a record of its own. ``until`` is
when this process returned from it, null unless ``end`` is ``returned``.

The clock, first, unless the capture is of a version that did not note it: ``{"type": "clock",
"monotonic", "realtime", "utc_offset"}``. A time ``t`` of another record was at ``t - monotonic +
realtime`` ns since 1970 (UTC); local time was ``utc_offset`` seconds ahead of UTC.

What was counted in the kernel: ``{"type": "count", "name", "binary", "pid", "count"}``, a
function and process each. How a value is distributed: ``histogram`` (`lbtrace.tables.histogram`).

The end: ``{"type": "summary", "calls", "lost": {cause: count…},
"processes", "threads", "interrupted"}``, ``points`` where there were some, and ``damaged`` of a
salvaged capture of which parts could not be read; ``lost_known`` is false where more may have been
lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lbtrace.model import (
    Aggregates,
    Argument,
    Call,
    Datum,
    Fork,
    Form,
    InheritedCall,
    Loss,
    Plan,
    Summary,
    Thread,
)
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.line_sink import Lines, LineSink, Piece, Pieces
from lbtrace.text import to_json
from lbtrace.values.datum import json_of, lacks_of

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch


COMPACT = (",", ":")


class JsonLines(LineSink):
    """See the module."""

    name = "jsonl"
    quotes_addresses = True

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._names = _Names()
        self.several = plan.may_grow or len(plan.traced) > 1
        self.grow(plan)

    def grow(self, plan: Plan) -> None:
        super().grow(plan)
        self._lanes = ["goroutine" if plan.goroutines(p) else "stack" for p in plan.probes]

    def begin(self) -> None:
        if self._plan.clock:
            self._write({"type": "clock", **msgspec.structs.asdict(self._plan.clock)})

    def thread(self, thread: Thread) -> None:
        inside = {"inside": thread.inside} if thread.inside else {}
        fields = {"pid": thread.pid, "tid": thread.tid, "name": thread.name, "time": thread.time}
        self._write({"type": "thread", **fields, **inside})

    def exit(self, call: Call) -> None:
        names = self._names
        args = self.arguments(call.probe, call.args)
        duration = "null" if call.duration is None else call.duration
        rest = self._rest(call)
        if self.layout.shows_cpu:
            rest += f',"cpu":{to_json(call.cpu)},"end_cpu":{to_json(call.end_cpu)}'
        if call.blocked is not None:
            rest += f',"blocked":{call.blocked},"runnable":{call.runnable}'
        self._stream.write(
            f'{{"type":"call","name":{names[call.name]},"args":[{args}]'
            f',"result":{json_value(call.result)},"start":{call.start},"duration":{duration}'
            f',"pid":{call.pid},"tid":{call.tid},"depth":{call.depth}'
            f',"end":"{call.end}"{rest}}}\n'
        )

    def arguments(self, probe: int, arguments: Sequence[Argument]) -> str:
        """See `LineSink`."""
        names = self._names
        return ",".join(
            [
                f'{{"name":{names[argument.name]},"value":{json_value(argument.value)}}}'
                for argument in arguments
            ]
        )

    def fast_batch(self, fast_batch: FastBatch) -> None:
        self._stream.write(self.native_lines(fast_batch)[0])

    def lines(self, number: int, arguments: Pieces, result: Pieces) -> Lines:
        """See `LineSink`."""
        from lbtrace.sinks import lines

        probe = self._plan.probes[number]
        name = to_json(self._plan.functions[probe.function].name)
        binary = f',"binary":{to_json(self._plan.path_of(probe.binary))}'

        def line(result: Pieces, *end: Piece | str) -> Pieces:
            return [
                *(f'{{"type":"call","name":{name},"args":[', *arguments, '],"result":', *result),
                *(',"start":', lines.START, ',"duration":', lines.ELAPSED),
                *(',"pid":', lines.PID, ',"tid":', lines.TID, ',"depth":', lines.DEPTH),
                *(',"end":"', *end, '"', lines.goroutine(f',"{self._lanes[number]}":')),
                (binary if self.several else "") + "}\n",
            ]

        returned = line(result, "returned")
        tail = line([json_value(None)], 'tail","leads_to":"', lines.LEADS_TO)
        return Lines((), returned, returned, tail, tail)

    def value(self, value: Datum) -> str:
        """See `LineSink`."""
        return json_value(value)

    def result(self, probe: int, result: Datum) -> str:
        """See `LineSink`."""
        return json_value(result)

    def point(self, point: Call) -> None:
        args, rest = self.arguments(point.probe, point.args), self._rest(point)
        if self.layout.shows_cpu:
            rest += f',"cpu":{to_json(point.cpu)}'
        self._stream.write(
            f'{{"type":"point","name":{self._names[point.name]},"args":[{args}]'
            f',"time":{point.start},"pid":{point.pid},"tid":{point.tid},"depth":{point.depth}'
            f"{rest}}}\n"
        )

    def loss(self, loss: Loss) -> None:
        self._write({"type": "loss", **msgspec.structs.asdict(loss)})

    def fork(self, fork: Fork) -> None:
        fields = msgspec.structs.asdict(fork)
        calls, number = fields.pop("calls"), fields.pop("goroutine")
        lanes = {self._lanes[calls[-1].probe]: number} if number else {}
        self._write({"type": "fork", **fields, **lanes})

    def inherited(self, call: InheritedCall) -> None:
        if call.end == "open":
            return  # as most do, when the process ends
        rest = self._rest(call)
        if self.layout.shows_cpu:
            rest += f',"end_cpu":{to_json(call.end_cpu)}'
        self._stream.write(
            f'{{"type":"inherited","name":{self._names[call.name]}'
            f',"args":[{self.arguments(call.probe, call.args)}],"result":{json_value(call.result)}'
            f',"start":{call.start},"until":{to_json(call.until)},"forked":{call.forked}'
            f',"maker":{call.maker},"pid":{call.pid},"tid":{call.tid},"depth":{call.depth}'
            f',"end":"{call.end}"{rest}}}\n'
        )

    def _rest(self, call: Call) -> str:
        """The members that only some calls have."""
        rest = f',"leads_to":{self._names[call.leads_to]}' if call.leads_to else ""
        rest += f',"exception":{json_value(call.exception)}' if call.exception else ""
        rest += f',"{self._lanes[call.probe]}":{call.goroutine}' if call.goroutine else ""
        if call.callers is not None:
            callers = msgspec.to_builtins(call.callers)
            rest += f',"callers":{to_json(callers, separators=COMPACT)}'
        return rest + f',"binary":{self._names[call.binary]}' if self.several else rest

    def aggregates(self, aggregates: Aggregates) -> None:
        from lbtrace.tables import aggregated  # imported here because most traces hold calls
        from lbtrace.tables.table import record

        for action, _, rows in aggregated(self._plan, aggregates):
            for row in rows:
                self._write({"type": action, **record(row)})

    def end(self, summary: Summary) -> None:
        self._write(
            {
                "type": "summary",
                "calls": summary.calls,
                "lost": msgspec.structs.asdict(summary.losses),
                "processes": summary.processes,
                "threads": summary.threads,
                "interrupted": summary.interrupted,
                **({"damaged": True} if summary.damaged else {}),
                **({} if summary.losses_known else {"lost_known": False}),
                **({"points": summary.points} if summary.points else {}),
            }
        )

    def _write(self, record: dict[str, Any]) -> None:
        self._stream.write(to_json(record, separators=COMPACT) + "\n")


class _Names(dict[str, str]):
    """Names as JSON strings, each made once."""

    def __missing__(self, name: str) -> str:
        quoted = self[name] = to_json(name)
        return quoted


def json_value(datum: Datum) -> str:
    """Return a value as JSON, with the members that say what it lacks, to follow the member
    ``value`` or ``result`` of the same object."""
    if type(datum) is int:
        return str(datum)
    if isinstance(datum, Form) and datum.is_plain:
        return f'"{datum.text()}"'
    value = to_json(json_of(datum))
    if isinstance(datum, Form) and datum.is_whole:
        return value
    parts = dict(lacks_of(datum, ""))
    for name, lack in parts.pop("", {}).items():
        value += f',"{name}":{to_json(lack)}'
    return f'{value},"parts":{to_json(parts)}' if parts else value
