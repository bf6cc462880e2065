"""Adds up what calls took, by function and what `By` says. Native code does the work
(lbtrace/native/profile.h): memory depends on the number of rows, not on that of the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec.structs import replace

from lbtrace.answers.row import Row
from lbtrace.calls._fast_path import ffi, lib
from lbtrace.calls.visitor import Visitor
from lbtrace.model import Call, Fork, InheritedCall, Plan, Thread
from lbtrace.values import text
from lbtrace.values.datum import Form

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch

By: TypeAlias = Literal["function", "thread", "caller", "path", "argument"]
"""What a row is about: a function; a function in a thread; below a caller; below all its callers;
with a value of an argument."""

NUMBERS = {name: number for number, name in enumerate(get_args(By))}
"""``LBT_BY_FUNCTION`` and those that follow it."""

MOST_ROWS = 100_000
"""What has no room is counted together: `Profile.unkept`."""

LONGEST = (1 << 63) - 1
"""No duration is longer, whatever a damaged capture says."""

OTHER_VALUES = 1 << 32
"""The context of calls with values for which there is no room."""


class Profile(Visitor):
    """A visitor that adds up durations. ``argument`` names the one that rows are by."""

    def __init__(self, plan: Plan, by: By = "function", argument: str = "") -> None:
        self.by: By = by
        self._argument = argument
        self._native = lib.lbt_profile_new(NUMBERS[by], MOST_ROWS)
        if not self._native:
            raise MemoryError
        self._native = ffi.gc(self._native, lib.lbt_profile_free)
        self._call = ffi.new("struct lbt_profile_call *")
        self._functions: dict[tuple[str, str], int] = {}
        self._values: dict[str, int] = {}
        self._threads: dict[int, str] = {}
        self.grow(plan)

    def grow(self, plan: Plan) -> None:
        """The plan has grown."""
        functions = []
        for probe in plan.probes:
            name = plan.functions[probe.function].name if probe.function >= 0 else "?"
            functions.append(self._function(name, plan.path_of(probe.binary)))
        _check(lib.lbt_profile_learn(self._native, functions, len(functions)))

    def thread(self, thread: Thread) -> None:
        if self.by == "thread":
            self._threads[thread.pid << 32 | thread.tid] = thread.name

    def entry(self, call: Call) -> None:
        _check(lib.lbt_profile_enter(self._native, self._describe(call)))

    def exit(self, call: Call) -> None:
        took = -1 if call.duration is None else min(call.duration, LONGEST)
        took = lib.LBT_UNENDED if took < 0 else took
        if call.end == "tail":
            took = lib.LBT_JUMPED
        _check(lib.lbt_profile_exit(self._native, self._describe(call), took))

    def point(self, point: Call) -> None:
        _check(lib.lbt_profile_count(self._native, self._describe(point), lib.LBT_PASSED))

    def fork(self, fork: Fork) -> None:
        for call in fork.calls:
            described = self._describe(call)
            described.pid, described.tid, described.is_uncounted = fork.pid, fork.tid, 1
            described.lane = fork.goroutine or fork.tid
            described.is_goroutine = fork.goroutine != 0
            _check(lib.lbt_profile_enter(self._native, described))

    def inherited(self, call: InheritedCall) -> None:
        _check(lib.lbt_profile_exit(self._native, self._describe(call), lib.LBT_UNENDED))

    def takes(self, fast_batch: FastBatch) -> bool:
        return self.by != "argument"

    def fast_batch(self, fast_batch: FastBatch) -> None:
        _check(lib.lbt_profile_batch(self._native, fast_batch.native))

    def restart(self) -> None:
        """Forget what ended calls took. Open ones will count whole when they end."""
        lib.lbt_profile_restart(self._native)

    @property
    def unkept(self) -> int:
        """Calls and points that are in no row, because there are more than `MOST_ROWS`."""
        return int(self._native.nodes[0].calls)

    def rows(self) -> list[Row]:
        """Return all rows, in the order in which they first occurred."""
        names = [*self._functions]
        values = {number: value for value, number in self._values.items()}
        made: list[Row] = []
        for number in range(1, self._native.node_count):
            node = self._native.nodes + number
            name, binary = names[node.function]
            key, path = "", ()
            if self.by == "thread":
                tid = node.context & 0xFFFF_FFFF
                key = " ".join(filter(None, (self._threads.get(node.context), str(tid))))
            elif self.by == "caller" and node.context:
                caller = node.context - 1
                key = names[caller][0] if caller < len(names) else "?"
            elif self.by == "path":
                path = (*(made[node.context - 2].path if node.context > 1 else ()), name)
            elif self.by == "argument":
                key = values.get(node.context, "" if not node.context else "…")
            made.append(_row(node, name, binary, key, path))
        below = {row.path[:n] for row in made if row.calls for n in range(1, len(row.path) + 1)}
        return [row for row in made if row.calls or row.path in below]

    def _describe(self, call: Call) -> Any:
        described = self._call
        described.pid, described.tid = call.pid, call.tid
        described.lane = call.goroutine or call.tid
        described.is_goroutine, described.is_uncounted = call.goroutine != 0, 0
        described.depth = call.depth
        described.function = self._function(call.name, call.binary)
        described.context = self._value(call) if self.by == "argument" else 0
        return described

    def _function(self, name: str, binary: str) -> int:
        return self._functions.setdefault((name, binary), len(self._functions))

    def _value(self, call: Call) -> int:
        """A number for the value of the argument that rows are by; 0 where there is none."""
        if self._argument not in call:
            return 0
        filled = call.result.filled() if isinstance(call.result, Form) else ()
        known = (each.value for each in filled if each.name == self._argument)
        value = text(next(known, call[self._argument]))
        if len(self._values) >= MOST_ROWS and value not in self._values:
            return OTHER_VALUES
        return self._values.setdefault(value, len(self._values) + 1)


def _row(node: Any, name: str, binary: str, key: str, path: tuple[str, ...]) -> Row:
    timed = int(node.timed)
    ends = {"unended": node.unended, "jumped": node.jumped}
    unknown = Row(name, binary, key, path, calls=node.calls, **ends)
    if not timed:
        return unknown
    return replace(
        unknown,
        timed=timed,
        total=node.total,
        self_time=node.own,
        mean=node.mean,
        deviation=(node.squares / (timed - 1)) ** 0.5 if timed > 1 else None,
        median=lib.lbt_profile_quantile(node, 0.5),
        p99=lib.lbt_profile_quantile(node, 0.99),
        min=node.least,
        max=node.most,
    )


def _check(error: int) -> None:
    if error:
        raise MemoryError
