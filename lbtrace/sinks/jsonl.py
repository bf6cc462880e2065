"""JSON Lines: an object for every finished call, thread, loss, and one for the end.

A call: ``{"type": "call", "name", "args": [{"name", "value"}…], "result",
"start", "duration", "pid", "tid", "depth", "end"}``, times in ns, in the
order in which calls end; ``goroutine`` where there is one, or ``stack``, the
address of a stack the program made itself; where several binaries are traced,
``binary`` is the path of the function's. ``duration`` is
null unless ``end`` is ``returned``. Integers are numbers (up to 128 bits: a
reader that turns them into doubles loses digits), truth values true and
false, characters and text strings (bytes that are not UTF-8 lone surrogates
from U+DC80 on), addresses strings in hexadecimal, functions their names,
records objects, arrays arrays, variants of Rust's enumerations strings or, where
they carry values, objects with one member. A value that could not be read is
null, with its reason beside it in
``unreadable``. Text that was cut has its true length in bytes beside it, in
``length``; null where nobody knows it. So have arrays the number of elements.
Where this concerns parts of a value, ``parts`` beside it has an object with these
members for each, by its JSON Pointer (RFC 6901): ``{"/name": {"length": 200}}``.

A thread, before its first call and whenever its name changes: ``{"type": "thread",
"pid", "tid", "name", "time"}``; ``inside`` where it has another number in a
pid namespace of its own.

A loss: ``{"type": "loss", "pid", "tid", "depth", "time", "count", "entries", "goroutine"}``:
``count`` events are missing here, of which ``entries`` began calls.

The end: ``{"type": "summary", "calls", "lost": {cause: count…},
"processes", "threads", "interrupted"}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from json import dumps
from math import isfinite
from typing import Any

import msgspec

from lbtrace.model import (
    Address,
    Call,
    Datum,
    Elements,
    Fields,
    Loss,
    Plan,
    Referent,
    Summary,
    Text,
    Thread,
    Unreadable,
    Variant,
)
from lbtrace.sinks.base import Sink
from lbtrace.values import characters


class JsonLines(Sink):
    """See the module."""

    name = "jsonl"

    def __init__(self, stream: Any, plan: Plan, *, color: bool = False) -> None:
        super().__init__(stream, plan, color=color)
        self._names = _Names()
        self._lanes = ["goroutine" if plan.goroutines(p) else "stack" for p in plan.probes]
        self._several = len(plan.binaries) > 1

    def thread(self, thread: Thread) -> None:
        inside = {"inside": thread.inside} if thread.inside else {}
        told = {"pid": thread.pid, "tid": thread.tid, "name": thread.name, "time": thread.time}
        self._write({"type": "thread", **told, **inside})

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
        rest = f',"{self._lanes[call.probe]}":{call.goroutine}' if call.goroutine else ""
        if self._several:
            rest += f',"binary":{names[call.binary]}'
        self._stream.write(
            f'{{"type":"call","name":{names[call.name]},"args":[{args}]'
            f',"result":{json_value(call.result)},"start":{call.start},"duration":{duration}'
            f',"pid":{call.pid},"tid":{call.tid},"depth":{call.depth}'
            f',"end":"{call.end}"{rest}}}\n'
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
    """A value as JSON, with the members that say what it lacks, to stand behind the
    member ``value`` or ``result`` of the same object."""
    if type(datum) is int:
        return str(datum)
    if isinstance(datum, Address):
        return f'"{datum:#x}"'
    value = dumps(_plain(datum))
    if type(datum) is Text and not datum.cut:
        return value
    parts = dict(_lacking(datum, ""))
    for name, told in parts.pop("", {}).items():
        value += f',"{name}":{dumps(told)}'
    return f'{value},"parts":{dumps(parts)}' if parts else value


def _lacking(datum: Datum, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a value lacks, and its parts, by their places in what `_plain` makes of it."""
    if isinstance(datum, Unreadable):
        yield path, {"unreadable": datum.reason}
    elif isinstance(datum, Text):
        if datum.cut:
            yield path, {"length": datum.length}
    elif isinstance(datum, Referent):
        yield from _lacking(datum.value, path)
    elif isinstance(datum, Elements):
        if datum.more:
            yield path, {"length": len(datum.elements) + datum.more}
        for n, element in enumerate(datum.elements):
            yield from _lacking(element, f"{path}/{n}")
    elif isinstance(datum, Fields | Variant):
        named = any(field.name for field in datum.fields)
        if isinstance(datum, Variant):
            path += f"/{_token(datum.name)}"
        single = isinstance(datum, Variant) and not named and len(datum.fields) == 1
        for n, field in enumerate(datum.fields):
            own = "" if single else f"/{_token(field.name) if named else n}"
            yield from _lacking(field.value, path + own)


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _plain(datum: Datum) -> Any:
    """What JSON has for a value: records are objects, or arrays where nothing in
    them has a name; a pointer that was followed is what it leads to."""
    convert = _PLAIN.get(type(datum))
    return convert(datum) if convert else datum


def _fields(datum: Fields | Variant) -> Any:
    if not datum.fields or any(field.name for field in datum.fields):
        return {field.name: _plain(field.value) for field in datum.fields}
    return [_plain(field.value) for field in datum.fields]


def _variant(datum: Variant) -> Any:
    if not datum.fields:
        return datum.name
    inside = _fields(datum)
    return {datum.name: inside[0] if isinstance(inside, list) and len(inside) == 1 else inside}


_PLAIN: dict[type, Callable[[Any], Any]] = {
    Text: characters,
    Fields: _fields,
    Variant: _variant,
    Elements: lambda datum: [_plain(element) for element in datum.elements],
    Referent: lambda datum: _plain(datum.value),
    Address: lambda datum: f"{datum:#x}",
    Unreadable: lambda datum: None,
    float: lambda datum: datum if isfinite(datum) else repr(datum),  # JSON has no such numbers
}
