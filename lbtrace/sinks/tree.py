"""The call tree for a person to read: the default.

A line is a duration, a thread and a piece of the tree::

     DURATION      TID  CALL
                  4711  fib(n=2)
       310 ns     4711  │ fib(n=1) = 1
       305 ns     4711  │ fib(n=0) = 0
      3.60 µs     4711  └ fib = 1

A call inside which nothing else was traced is one line. The others have an
opening line and, straight below it, a closing one. Guides stop at a depth of
eight; deeper calls show their depth as a number, so nesting never leaves the
screen. A call of which no return was seen says so in the place of its result,
unless returns were not watched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from lbtrace.model import Call, Loss, Plan, Summary, Thread
from lbtrace.sinks.base import Sink, lane, told
from lbtrace.values import results_text, text

GUIDES = 8
"""Depth from which on the depth is a number."""

_ENDS = {"unwound": "unwound", "tail": "tail call", "open": "no return seen"}
_HEADING = f"{'DURATION':>9}  {'TID':>7}  CALL\n"

_DIM, _BOLD, _GREEN, _YELLOW, _RED, _RESET = (
    f"\x1b[{code}m" for code in ("2", "1", "32", "33", "31", "0")
)


class Tree(Sink):
    """See the module."""

    name = "tree"

    def __init__(self, stream: Any, plan: Plan, *, color: bool = False) -> None:
        super().__init__(stream, plan, color=color)
        self._pending: dict[tuple[int, int], Call] = {}
        self._shown: dict[int, Thread] = {}
        functions = [plan.functions[probe.function] for probe in plan.probes]
        self._typed = [function.typed for function in functions]
        self._go = [function.language == "go" for function in functions]
        self._watched = [not function.returns.startswith("none") for function in functions]
        self._heading = _HEADING

    def thread(self, thread: Thread) -> None:
        if not _same(self._shown.get(thread.tid), thread):
            self._shown[thread.tid] = thread
            of = "" if thread.pid == thread.tid else f", a thread of {thread.pid}"
            if thread.inside:
                of += f", {thread.inside} inside its container"
            self._line("", thread.tid, self._paint(_DIM, f"── {_printable(thread.name)}{of}"))

    def entry(self, call: Call) -> None:
        key = (call.pid, lane(call))
        if key in self._pending:
            self._open(self._pending[key])
        self._pending[key] = call

    def exit(self, call: Call) -> None:
        key = (call.pid, lane(call))
        pending = self._pending.pop(key, None)
        if pending is call:
            self._close(call, self._head(call))
            return
        if pending is not None:
            self._open(pending)
        corner = self._paint(_DIM, "└ ")
        self._close(call, f"{self._indent(call.depth)}{corner}{self._name(call)}")

    def loss(self, loss: Loss) -> None:
        for key in [key for key in self._pending if key[0] == loss.pid]:
            self._open(self._pending.pop(key))
        mark = self._paint(_RED, f"✗ {told(loss)}")
        self._line("", lane(loss), self._indent(loss.depth) + mark)

    def flush(self) -> None:
        for call in self._pending.values():
            self._open(call)
        self._pending.clear()

    def end(self, summary: Summary) -> None:
        self.flush()

    def _open(self, call: Call) -> None:
        self._line("", lane(call), self._head(call))

    def _close(self, call: Call, head: str) -> None:
        if call.end != "returned":
            mark = self._paint(_RED, f" ✗ {_ENDS[call.end]}") if self._watched[call.probe] else ""
            self._line("", lane(call), head + mark)
            return
        result = "" if call.result is None else f" = {self._paint(_GREEN, self._result(call))}"
        self._line(duration(call.duration or 0), lane(call), head + result)

    def _line(self, time: str, thread: int, rest: str) -> None:
        if self._heading:
            self._stream.write(self._paint(_DIM, self._heading.rstrip("\n")) + "\n")
            self._heading = ""
        time = f"{time:>9}"
        if self._color:
            slow = _RED if time.endswith(" s") else _YELLOW if time.endswith(" ms") else ""
            time = f"{slow}{time}{_RESET}" if slow else time
            self._stream.write(f"{time}  {_DIM}{thread:>7}{_RESET}  {rest}\n")
        else:
            self._stream.write(f"{time}  {thread:>7}  {rest}\n")

    def _head(self, call: Call) -> str:
        if self._typed[call.probe]:
            args = ", ".join(
                [
                    f"{arg.name}={text(arg.value)}" if arg.name.isidentifier() else text(arg.value)
                    for arg in call.args
                ]
            )
        else:  # the names would be invented
            args = ", ".join([text(arg.value) for arg in call.args])
        return f"{self._indent(call.depth)}{self._name(call)}({args})"

    def _result(self, call: Call) -> str:
        write = results_text if self._go[call.probe] else text
        return write(call.result)

    def _name(self, call: Call) -> str:
        return self._paint(_BOLD, _printable(call.name))

    def _indent(self, depth: int) -> str:
        guides = _indent(depth)
        return self._paint(_DIM, guides) if guides else guides

    def _paint(self, color: str, words: str) -> str:
        return f"{color}{words}{_RESET}" if self._color else words


def _same(former: Thread | None, thread: Thread) -> bool:
    """Whether nothing about a thread has changed but the time."""
    return former is not None and replace(former, time=thread.time) == thread


@lru_cache(maxsize=4096)
def _indent(depth: int) -> str:
    if depth < GUIDES:
        return "│ " * depth
    return "│ " * (GUIDES - 1) + f"│ [{depth}] "


def _printable(name: str) -> str:
    """A name that cannot steer the terminal."""
    return name if name.isprintable() else ascii(name)[1:-1]


def duration(nanoseconds: int) -> str:
    """A duration with three significant digits and the unit that suits it."""
    if nanoseconds < 1000:
        return f"{nanoseconds} ns"
    value = float(nanoseconds)
    for unit in ("µs", "ms", "s"):
        value /= 1000
        if value < 999.5 or unit == "s":
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"
