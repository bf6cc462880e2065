"""JSON Lines: an object for every finished call, loss, and one for the end.

A call: ``{"type": "call", "name", "args": [{"name", "value"}…], "result",
"start", "duration", "pid", "tid", "depth", "end"}``, times in ns, in the
order in which calls end; ``goroutine`` where there is one, or ``stack``, the
address of a stack the program made itself. ``duration`` is
null unless ``end`` is ``returned``. Integers are numbers (up to 64 bits: a
reader that turns them into doubles loses digits), truth values true and
false, characters strings, addresses strings in hexadecimal. A value that
could not be read is null, with its reason beside it in ``unreadable``.

A loss: ``{"type": "loss", "pid", "tid", "depth", "time", "count"}``.

The end: ``{"type": "summary", "calls", "lost": {cause: count…},
"processes", "threads", "interrupted"}``.
"""

from __future__ import annotations

from json import dumps
from typing import Any

import msgspec

from lbtrace.model import Address, Call, Datum, Loss, Plan, Summary, Unreadable
from lbtrace.sinks.base import Sink


class JsonLines(Sink):
    """See the module."""

    name = "jsonl"

    def __init__(self, stream: Any, plan: Plan, *, color: bool = False) -> None:
        super().__init__(stream, plan, color=color)
        self._names = _Names()
        self._lane = "goroutine" if plan.go else "stack"

    def entry(self, call: Call) -> None:
        """A call is written when it has ended."""

    def exit(self, call: Call) -> None:
        names = self._names
        args = ",".join(
            [
                f'{{"name":{names[argument.name]},"value":{json_value(argument.value)}}}'
                for argument in call.args
            ]
        )
        duration = "null" if call.duration is None else call.duration
        lane = f',"{self._lane}":{call.goroutine}' if call.goroutine else ""
        self._stream.write(
            f'{{"type":"call","name":{names[call.name]},"args":[{args}]'
            f',"result":{json_value(call.result)},"start":{call.start},"duration":{duration}'
            f',"pid":{call.pid},"tid":{call.tid},"depth":{call.depth}'
            f',"end":"{call.end}"{lane}}}\n'
        )

    def loss(self, loss: Loss) -> None:
        self._write({"type": "loss", **msgspec.structs.asdict(loss)})

    def end(self, summary: Summary) -> None:
        self._write(
            {
                "type": "summary",
                "calls": summary.calls,
                "lost": msgspec.structs.asdict(summary.losses),
                "processes": summary.processes,
                "threads": summary.threads,
                "interrupted": summary.interrupted,
            }
        )

    def _write(self, record: dict[str, Any]) -> None:
        self._stream.write(dumps(record, separators=(",", ":")) + "\n")


class _Names(dict[str, str]):
    """Names as JSON strings, each made once."""

    def __missing__(self, name: str) -> str:
        quoted = self[name] = dumps(name)
        return quoted


def json_value(datum: Datum) -> str:
    """A value as JSON; for an unreadable one also the member that says why,
    to stand behind the member ``value`` or ``result`` of the same object."""
    if type(datum) is int:
        return str(datum)
    if isinstance(datum, Address):
        return f'"{datum:#x}"'
    if isinstance(datum, Unreadable):
        return f'null,"unreadable":{dumps(datum.reason)}'
    return dumps(datum)
