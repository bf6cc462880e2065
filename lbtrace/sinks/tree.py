"""The call tree for a person to read: the default.

A line is a duration, a thread and a piece of the tree::

     DURATION      TID  CALL
                  4711  fib(n=2)
       310 ns     4711  │ fib(n=1) = 1
       305 ns     4711  │ fib(n=0) = 0
      3.60 µs     4711  └ fib = 1

A place inside of a function that the program comes by is a line of its own: ``· trace.c:36 ret=3``.
A call without traced calls inside is one line. The others have an opening line and, straight below
it, a closing one; that of a pair of markers repeats its arguments. Guides stop at a depth of eight;
deeper calls show their depth as a number, so nesting never leaves the screen. A call whose return
was not seen says so in the place of its result, unless returns were not watched. A process that was
forked inside
of calls continues at their depth, and shows as theirs the returns that it makes from them::

                  4712  │ ── forked by 4711
       300 ns     4712  │ leaf(n=2) = 3
                  4712  └ work = 3 (entered in 4711)

The goroutine, as ``g5``, or the stack that a program made itself, as ``s2``, takes the place of the
thread. Before the first call on such a stack a line says where it is::

                    s2  ── a stack of 4712, at 0x564e4f7f7260

With ``--time`` the first column has the time of the line (`lbtrace.sinks.times`). With ``--cpu`` a
column has the processor: at an
opening line the one on which the call began, at a closing line the one on which it returned,
``0→3`` where both are one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lbtrace.model import (
    Aggregates,
    Argument,
    Call,
    Datum,
    Fork,
    InheritedCall,
    Loss,
    Plan,
    Summary,
    Thread,
)
from lbtrace.model.calls import End, end_text
from lbtrace.sinks.base import describe_frame, describe_loss, lane
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.line_sink import Lines, LineSink, Piece, Pieces
from lbtrace.sinks.times import Times
from lbtrace.text import clean, duration
from lbtrace.values.datum import UNUSED
from lbtrace.values.notation import argument_text, results_text, text

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch, Lane

GUIDES = 8
"""Depth from which on the depth is a number."""

_HEADING = f"{'DURATION':>9}  {'TID':>7}  CALL\n"

_DIM, _BOLD, _GREEN, _YELLOW, _RED, _RESET = (
    f"\x1b[{code}m" for code in ("2", "1", "32", "33", "31", "0")
)


class Tree(LineSink):
    """See the module."""

    name = "tree"
    may_be_cut = True
    delayed = True

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._pending: dict[tuple[int, int], Call] = {}
        self._shown: dict[int, Thread] = {}
        self._own: dict[tuple[int, int], str] = {}
        self._stacks = 0
        self._heading = _HEADING.replace("CALL", "  CPU  CALL") if layout.shows_cpu else _HEADING
        if layout.time:
            self.times = Times(layout.time, plan.clock)
            self._heading = self.times.heading + self._heading
        self.grow(plan)

    def grow(self, plan: Plan) -> None:
        super().grow(plan)
        functions = [plan.functions[probe.function] for probe in plan.probes]
        self._typed = [function.typed for function in functions]
        self._go = [function.language == "go" for function in functions]
        self._watched = [not function.returns.startswith("none") for function in functions]
        self._goroutines = [plan.goroutines(probe) for probe in plan.probes]

    def thread(self, thread: Thread) -> None:
        if not _same(self._shown.get(thread.tid), thread):
            self._shown[thread.tid] = thread
            of = "" if thread.pid == thread.tid else f", a thread of {thread.pid}"
            if thread.inside:
                of += f", {thread.inside} inside its container"
            self._line("", str(thread.tid), self._paint(_DIM, f"── {clean(thread.name)}{of}"))

    def entry(self, call: Call) -> None:
        key = (call.pid, lane(call))
        if key in self._pending:
            self._open(self._pending[key])
        self._wait(key, call)

    def _wait(self, key: tuple[int, int], call: Call) -> None:
        """Wait whether the end of a call is the next of its lane, if it has one."""
        if self._is_last(call):
            self._pending.pop(key, None)
            self._open(call)
        else:
            self._pending[key] = call

    def _is_last(self, call: Call) -> bool:
        """Whether it is a system call that does not return: exit_group."""
        return not self._watched[call.probe] and self._plan.probes[call.probe].source == "syscall"

    def exit(self, call: Call) -> None:
        key = (call.pid, lane(call))
        pending = self._pending.pop(key, None)
        if pending is call:
            moved = call.end_cpu is not None and call.end_cpu != call.cpu
            cpu = f"{call.cpu}→{call.end_cpu}" if moved else call.cpu
            self._close(call, self._head(call), cpu, call.start)
            self._call_path(call)
            return
        if pending is not None:
            self._open(pending)
        if self._is_last(call):
            return
        corner = self._paint(_DIM, "└ ")
        head = f"{self.indent(call.depth)}{corner}{self._ended(call)}"
        until = None if call.duration is None else call.start + call.duration
        self._close(call, head, call.end_cpu, until)

    def takes(self, fast_batch: FastBatch) -> bool:
        return not (
            self.layout.color
            or any(each.goroutine and self._is_stack(fast_batch, each) for each in fast_batch.lanes)
        )

    def fast_batch(self, fast_batch: FastBatch) -> None:
        for each in fast_batch.lanes:
            fast_batch.continues(each, entry=each.key in self._pending)
        text, lines = self.native_lines(fast_batch)
        if lines:
            self._head_up()
            self._stream.write(text)
        self._keep_pending(fast_batch)

    def lines(self, number: int, arguments: Pieces, result: Pieces) -> Lines:
        """See `LineSink`."""
        from lbtrace.sinks import lines

        name = clean(self._plan.functions[self._plan.probes[number].function].name)
        lane: list[Piece | str] = ["  ", lines.LANE_COLUMN, "  ", lines.INDENT]
        start: list[Piece | str] = [lines.TIME_OF_START, "  "] if self.times else []
        until: list[Piece | str] = [lines.TIME_OF_END, "  "] if self.times else []
        call = [*lane, name, "(", *arguments, ")"]
        closing = [*lane, "└ ", name]
        blank, end, arrow = " " * 9, "\n", " → "
        return Lines(
            [*start, blank, *call, end],
            [*start, lines.DURATION, *call, *result, end],
            [*until, lines.DURATION, *closing, *result, end],
            [*start, lines.DURATION, *call, arrow, lines.LEADS_TO, end],
            [*until, lines.DURATION, *closing, arrow, lines.LEADS_TO, end],
        )

    def _keep_pending(self, fast_batch: FastBatch) -> None:
        """Note the entries without a line, in the order in which the first of them came."""
        pending = self._pending
        shown = [each for each in fast_batch.lanes if each.first is not None]
        for each in sorted(shown, key=lambda each: each.entries or 0):
            if each.goroutine:
                self._own[each.key] = f"g{each.goroutine}"
            if each.entries != each.first:
                pending.pop(each.key, None)
            if each.entries is not None:
                self._wait(each.key, fast_batch.last_shown(each))

    def point(self, point: Call) -> None:
        if pending := self._pending.pop((point.pid, lane(point)), None):
            self._open(pending)
        args = ", ".join([argument_text(arg) for arg in point.args])
        mark = self._paint(_DIM, "· ")
        values = f" {args}" if args else ""
        line = f"{self.indent(point.depth)}{mark}{self._name(point)}{values}"
        self._line("", self._lane(point), line, point.cpu, point.start)
        self._call_path(point)

    def loss(self, loss: Loss) -> None:
        for key in [key for key in self._pending if key[0] == loss.pid]:
            self._open(self._pending.pop(key))
        mark = self._paint(_YELLOW, f"! {describe_loss(loss)}")
        own = self._own.get((loss.pid, lane(loss)), str(loss.tid))
        self._line("", own, self.indent(loss.depth) + mark, None, loss.time)

    def fork(self, fork: Fork) -> None:
        pending = self._pending.pop((fork.parent_pid, fork.goroutine or fork.parent), None)
        if pending is not None:
            self._open(pending)
        words = self._paint(_DIM, f"── forked by {fork.parent}")
        own = self._lane_of(fork.pid, fork.tid, fork.goroutine, fork.calls[-1].probe)
        self._line("", own, self.indent(fork.depth) + words, None, fork.time)

    def inherited(self, call: InheritedCall) -> None:
        if call.end == "open":
            return  # as most do, when the process ends
        if pending := self._pending.pop((call.pid, lane(call)), None):
            self._open(pending)
        if call.end == "returned":
            result = self.result(call.probe, call.result)
        else:
            result = self.mark(call.probe, call.end, call.leads_to, call.exception)
        corner, maker = self._paint(_DIM, "└ "), self._paint(_DIM, f" (entered in {call.maker})")
        line = f"{self.indent(call.depth)}{corner}{self._ended(call)}{result}{maker}"
        self._line("", self._lane(call), line, call.end_cpu, call.until)

    def flush(self) -> None:
        for call in self._pending.values():
            self._open(call)
        self._pending.clear()

    def aggregates(self, aggregates: Aggregates) -> None:
        """A table of each action that aggregates."""
        from lbtrace.tables import aggregated  # imported here because most traces hold calls
        from lbtrace.tables.table import lines

        for _, table, rows in aggregated(self._plan, aggregates):
            for line in lines(table, rows):
                self._stream.write(f"{line}\n")

    def end(self, summary: Summary) -> None:
        self.flush()

    def _open(self, call: Call) -> None:
        self._line("", self._lane(call), self._head(call), call.cpu, call.start)
        self._call_path(call)

    def _call_path(self, call: Call) -> None:
        """The callers of a call, a line each, if they were sent."""
        if call.callers is None:
            return
        lane, indent = self._lane(call), self.indent(call.depth + 1)
        for frame in call.callers.frames:
            self._line("", lane, indent + self._paint(_DIM, f"← {describe_frame(frame)}"))
        if call.callers.end not in ("outermost", "limit"):
            self._line("", lane, indent + self._paint(_DIM, f"← … ({call.callers.end})"))

    def _close(self, call: Call, head: str, cpu: int | str | None, at: int | None) -> None:
        if call.end != "returned":
            mark = self.mark(call.probe, call.end, call.leads_to, call.exception)
            time = "" if call.duration is None else duration(call.duration)
            self._line(time, self._lane(call), head + mark + self._off_cpu(call), cpu, at)
            return
        result = self.result(call.probe, call.result)
        result += self._off_cpu(call)
        self._line(duration(call.duration or 0), self._lane(call), head + result, cpu, at)

    def _off_cpu(self, call: Call) -> str:
        """What of its duration a call did not run."""
        parts = {"blocked": call.blocked, "runnable": call.runnable}
        words = ", ".join(f"{name} {duration(time)}" for name, time in parts.items() if time)
        return self._paint(_DIM, f" (off-CPU: {words})") if words else ""

    def mark(self, probe: int, end: End, leads_to: str = "", thrown: Datum = None) -> str:
        """Return what stands after a call that did not return, if returns are watched."""
        if leads_to:
            return self._paint(_DIM, f" → {clean(leads_to)}")
        if not self._watched[probe]:
            return ""
        return self._paint(_RED if end == "unwound" else _DIM, f" {end_text(end, thrown)}")

    def _lane(self, call: Call) -> str:
        return self._lane_of(call.pid, call.tid, call.goroutine, call.probe)

    def _lane_of(self, pid: int, tid: int, goroutine: int, probe: int) -> str:
        if not goroutine:
            return str(tid)
        if self._goroutines[probe]:
            name = self._own[pid, goroutine] = f"g{goroutine}"
            return name
        return self._own.get((pid, goroutine)) or self._name_stack(pid, goroutine)

    def _name_stack(self, pid: int, address: int) -> str:
        """The name of a stack that a program made, which a line introduces: addresses are long, and
        those of a forked process are its parent's."""
        self._stacks += 1
        name = self._own[pid, address] = f"s{self._stacks}"
        self._line("", name, self._paint(_DIM, f"── a stack of {pid}, at {address:#x}"))
        return name

    def _is_stack(self, fast_batch: FastBatch, lane: Lane) -> bool:
        return lane.first is not None and not self._goroutines[fast_batch.probe(lane.first)]

    def _head_up(self) -> None:
        if self._heading:
            self._stream.write(self._paint(_DIM, self._heading.rstrip("\n")) + "\n")
            self._heading = ""

    def _line(
        self,
        time: str,
        thread: str,
        rest: str,
        cpu: int | str | None = None,
        at: int | None = None,
    ) -> None:
        self._head_up()
        column = self.times.column(at) if self.times else ""
        if self.layout.shows_cpu:
            rest = f"{'' if cpu is None else cpu:>5}  {rest}"
        time = f"{time:>9}"
        if self.layout.color:
            slow = _RED if time.endswith(" s") else _YELLOW if time.endswith(" ms") else ""
            time = f"{slow}{time}{_RESET}" if slow else time
            self._stream.write(f"{column}{time}  {_DIM}{thread:>7}{_RESET}  {rest}\n")
        else:
            self._stream.write(f"{column}{time}  {thread:>7}  {rest}\n")

    def _head(self, call: Call) -> str:
        args = self.arguments(call.probe, call.args)
        return f"{self.indent(call.depth)}{self._name(call)}({args})"

    def _ended(self, call: Call) -> str:
        """The call whose end a line shows. Calls of a pair of markers have one name, whatever they
        do: their arguments say which it is."""
        if not self._plan.probes[call.probe].pair:
            return self._name(call)
        return f"{self._name(call)}({self.arguments(call.probe, call.args)})"

    def arguments(self, probe: int, arguments: Sequence[Argument]) -> str:
        """See `LineSink`."""
        if self._typed[probe]:
            shown = [argument_text(arg) for arg in arguments if arg.value is not UNUSED]
            return ", ".join(shown)
        return ", ".join([text(arg.value) for arg in arguments])  # names would be guesses

    def result(self, probe: int, result: Datum) -> str:
        """See `LineSink`."""
        if result is None:
            return ""
        shown = results_text(result) if self._go[probe] else text(result)
        return f" = {self._paint(_GREEN, shown)}"

    def value(self, value: Datum) -> str:
        """See `LineSink`."""
        return text(value)

    def _name(self, call: Call) -> str:
        return self._paint(_BOLD, clean(call.name))

    def indent(self, depth: int) -> str:
        """Return what stands before a call at a depth."""
        guides = _indent(depth)
        return self._paint(_DIM, guides) if guides else guides

    def indents(self, depth: int) -> tuple[str, str]:
        """See `LineSink`."""
        return self.indent(depth), self.indent(depth)

    def _paint(self, color: str, words: str) -> str:
        return f"{color}{words}{_RESET}" if self.layout.color else words


def _same(former: Thread | None, thread: Thread) -> bool:
    """Whether nothing about a thread has changed but the time."""
    return former is not None and replace(former, time=thread.time) == thread


@lru_cache(maxsize=4096)
def _indent(depth: int) -> str:
    if depth < GUIDES:
        return "│ " * depth
    return "│ " * (GUIDES - 1) + f"│ [{depth}] "
