"""Scripted traces: a fake stack whose frames go down, written as events.

What a script means is said by the script; expected values in the tests are
derived from it by hand.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lbtrace.calls.matcher import CallMatcher
from lbtrace.model import (
    CLOSE,
    EXEC,
    FORK,
    INTERRUPT,
    LOSS,
    OPEN,
    POINT,
    Batch,
    Binary,
    Call,
    Event,
    Fork,
    Function,
    InheritedCall,
    Integer,
    Loss,
    Losses,
    Plan,
    Probe,
    Site,
    Summary,
    Thread,
    Type,
    Value,
)
from lbtrace.model.wire import EVENT
from lbtrace.sinks import FORMATS
from lbtrace.sinks.layout import Layout

INT = Integer("int", 4, True)
TOP = 0x7FFF_0000_0000


def plan_of(*functions: tuple[str, tuple[Type, ...], Type | None]) -> Plan:
    """A plan for functions given as name, parameter types, result type."""
    made = tuple(
        Function(
            name,
            0x1000 + 64 * number,
            64,
            0x1000 + 64 * number,
            parameters=tuple(Value("nmklij"[i], type_, i) for i, type_ in enumerate(parameters)),
            result=None if result is None else Value("", result, 0),
            typed=True,
        )
        for number, (name, parameters, result) in enumerate(functions)
    )
    probes = tuple(
        probe
        for number, f in enumerate(made)
        for probe in hooked(number, Site(f.address, f.offset))
    )
    return Plan((Binary("./sample", "abcd"),), made, probes)


def hooked(function: int, site: Site) -> tuple[Probe, Probe]:
    """The two probes of a function whose returns the kernel hooks."""
    return (
        Probe(site, "opens", function),
        Probe(site, "closes", function, source="uretprobe"),
    )


@dataclass
class Script:
    """Events of a program, written down step by step.

    `call` and `ret` move the fake stack of a thread down and up; every step
    takes 100 ns. `enter` and `leave` send an event without moving anything. These take
    the number of a function of `plan_of`; `hit` that of a probe.
    """

    time: int = 1000
    stacks: dict[int, list[int]] = field(default_factory=dict)
    records: list[bytes] = field(default_factory=list)
    pids: dict[int, int] = field(default_factory=dict)

    def enter(self, probe: int, frame: int, *values: int, tid: int = 7, **more: int) -> None:
        self._event(OPEN, 2 * probe, frame, values, tid, **more)

    def leave(self, probe: int, frame: int, *values: int, tid: int = 7, **more: int) -> None:
        self._event(CLOSE, 2 * probe + 1, frame, values, tid, **more)

    def hit(
        self, probe: int, frame: int, *values: int, tid: int = 7, kind: int = POINT, **more: int
    ) -> None:
        self._event(kind, probe, frame, values, tid, **more)

    def fork(
        self, child: int, frame: int = 0x100, tid: int = 7, *, continues: bool = True, **facts: int
    ) -> None:
        """The thread forks a process: ``life``, ``inside`` and ``programs`` are its."""
        life, inside = facts.pop("life", 0), facts.pop("inside", 0)
        second = inside | facts.pop("programs", 0) << 22 | continues << 32
        self._event(FORK, 0, frame, (child | life << 32, second), tid, **facts)
        self.pids.setdefault(child, child)

    def executes(self, programs: int, tid: int = 7) -> None:
        """The process has executed that many programs."""
        self._event(EXEC, 0, 0, (programs << 22,), tid)

    def interrupt(self, frame: int, tid: int = 7) -> None:
        """A signal interrupts the thread, to be handled on another stack."""
        self._event(INTERRUPT, 0, frame, (), tid)

    def call(self, probe: int, *values: int, tid: int = 7, **more: int) -> None:
        stack = self.stacks.setdefault(tid, [])
        stack.append(TOP - 48 * (len(stack) + 1))
        self.enter(probe, stack[-1], *values, tid=tid, **more)

    def ret(self, probe: int, *values: int, tid: int = 7, **more: int) -> None:
        self.leave(probe, self.stacks[tid].pop(), *values, tid=tid, **more)

    def fib(self, n: int, tid: int = 7) -> int:
        """fib as it runs: this is the program."""
        self.call(0, n, tid=tid)
        result = n if n < 2 else self.fib(n - 1, tid) + self.fib(n - 2, tid)
        self.ret(0, result, tid=tid)
        return result

    def batch(self, threads: tuple[Thread, ...] = ()) -> Batch:
        batch = Batch(b"".join(self.records), b"", threads)
        self.records = []
        return batch

    def _event(
        self,
        kind: int,
        probe: int,
        frame: int,
        values: tuple[int, ...],
        tid: int,
        lost: int = 0,
        faults: int = 0,
        goroutine: int = 0,
        bits: int = 0,
    ) -> None:
        self.time += 100
        slots = [value & (1 << 64) - 1 for value in values] + [0] * (6 - len(values))
        pid = self.pids.get(tid, 5)
        if lost:
            head = (self.time, frame, goroutine, probe, pid, tid, LOSS | bits, 0, 0, 0)
            self.records.append(EVENT.pack(*head, 0, lost, *[0] * 4))
        self.records.append(
            EVENT.pack(
                *(self.time, frame, goroutine, probe, pid, tid, kind | bits, faults, 0, 0),
                *slots,
            )
        )


@dataclass
class Seen:
    """A visitor that writes down what it is shown."""

    steps: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def thread(self, thread: Thread) -> None:
        self.steps.append(f"thread {thread.tid} {thread.name}")

    def entry(self, call: Call) -> None:
        self.calls.append(call)
        args = " ".join(str(argument.value) for argument in call.args)
        self.steps.append(f"{call.depth} > {call.name} {args}".rstrip())

    def exit(self, call: Call) -> None:
        end = f"= {call.result}" if call.end == "returned" else call.end
        self.steps.append(f"{call.depth} < {call.name} {end}")

    def left(self, event: Event) -> None: ...

    def point(self, point: Call) -> None:
        self.exit(point)

    def loss(self, loss: Loss) -> None:
        self.steps.append(f"{loss.depth} lost {loss.count}")

    def fork(self, fork: Fork) -> None:
        assert fork.depth == len(fork.calls)
        self.steps.append(f"{fork.depth} {fork.pid} forked by {fork.parent}")

    def inherited(self, call: InheritedCall) -> None:
        assert call.duration is None
        end = f"= {call.result}" if call.end == "returned" else call.end
        self.steps.append(f"{call.depth} <{call.maker} {call.name} {end}")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def fib_plan() -> Plan:
    return plan_of(("fib", (INT,), INT))


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    return plan_of


@pytest.fixture
def watch() -> Callable[..., tuple[list[str], CallMatcher]]:
    """Match batches to their end; what was shown, and the matcher."""

    def run(
        plan: Plan, *batches: Batch, max_depth: int | None = None
    ) -> tuple[list[str], CallMatcher]:
        seen = Seen()
        matcher = CallMatcher(plan, seen, max_depth=max_depth)
        for batch in batches:
            matcher.feed(batch)
        matcher.finish()
        return seen.steps, matcher

    return run


@pytest.fixture
def render() -> Callable[..., str]:
    """What a sink writes for batches."""

    def run(
        name: str,
        plan: Plan,
        *batches: Batch,
        losses: Losses | None = None,
        **layout: Any,
    ) -> str:
        stream = io.StringIO()
        sink = FORMATS[name].load()(stream, plan, Layout(**layout))
        matcher = CallMatcher(plan, sink)
        for batch in batches:
            matcher.feed(batch)
        matcher.finish()
        sink.end(Summary(calls=matcher.calls, losses=losses or Losses()))
        return stream.getvalue()

    return run
