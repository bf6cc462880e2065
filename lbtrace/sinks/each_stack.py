"""Each call or point with its stack: when, on which processor, whose."""

from __future__ import annotations

from typing import Any

from lbtrace.model import Call, Loss, Plan, Thread
from lbtrace.sinks.base import Sink, describe_frame, describe_loss
from lbtrace.sinks.jsonl import JsonLines
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.text import clean, to_json


class EachStack(Sink):
    """A line for each, and one for each frame below it. The time is in seconds since the trace
    began."""

    name = "list"

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._threads: dict[int, str] = {}

    def thread(self, thread: Thread) -> None:
        """Keep the name."""
        self._threads[thread.tid] = thread.name

    def begin(self) -> None:
        """Write the heading."""
        self._stream.write(f"{'TIME(s)':>14}  CPU      PID  {'COMM':16}  FUNCTION\n")

    def entry(self, call: Call) -> None:
        """Write it with its stack."""
        clock = self._plan.clock
        since = (call.start - (clock.monotonic if clock else 0)) / 1e9
        whose = f"{call.pid:>7}  {clean(self._threads.get(call.tid, '')):16}"
        self._stream.write(f"{since:14.9f}  {call.cpu:>3}  {whose}  {clean(call.name)}\n")
        if call.callers is None:
            self._stream.write("    [its stack was lost]\n")
            return
        for frame in call.callers.frames:
            self._stream.write(f"    {describe_frame(frame)}\n")
        if call.callers.end != "outermost":
            self._stream.write(f"    [cut: {call.callers.end}]\n")

    def loss(self, loss: Loss) -> None:
        """Say what is missing."""
        self._stream.write(f"    [{describe_loss(loss)}]\n")


class EachJson(JsonLines):
    """The same as JSON objects: those of calls, as they begin."""

    def entry(self, call: Call) -> None:
        """Write it."""
        self._stream.write(
            f'{{"type":"call","name":{to_json(call.name)}'
            f',"args":[{self.arguments(call.probe, call.args)}],"start":{call.start}'
            f',"pid":{call.pid},"tid":{call.tid},"cpu":{to_json(call.cpu)}{self._rest(call)}}}\n'
        )

    def exit(self, call: Call) -> None:
        """It is written."""
