"""Counts calls that were sent, as the kernel counts those that it does not send: of what is made
here `lbtrace.tables` makes the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.answers.cell import Alike, Cell, CountCell, HistogramCell
from lbtrace.calls.visitor import Visitor
from lbtrace.expressions.grouping import parse_columns, parse_keys
from lbtrace.expressions.recorded import RecordedTest, RecordedValue
from lbtrace.expressions.recorded_values import LacksName, Looked
from lbtrace.expressions.syntax import argument
from lbtrace.expressions.tree import AT_RETURN, ArgExpression, Name, names_in
from lbtrace.model import Aggregates, Call, Column, Losses, Plan, Thread
from lbtrace.model.wire_limits import SLOT_DURATION


class Asked(Struct, frozen=True):
    """What is asked of calls: their number ``by`` values and what ``columns`` say of the
    ``measured`` ones, or how one is distributed. ``where`` and ``functions`` select calls, and of
    these count those that took longer than ``bound`` ns, of a ``thread`` (its number or name, or
    the number of a goroutine), and that ``begin`` so many ns after the first one, or before the
    ``end``."""

    action: str = "count"
    by: tuple[str, ...] = ()
    keys: tuple[ArgExpression, ...] = ()
    columns: tuple[Column, ...] = ()
    measured: tuple[ArgExpression, ...] = ()
    where: str = ""
    functions: frozenset[str] | None = None
    bound: int = -1
    thread: str | None = None
    begin: int = 0
    end: int | None = None

    @property
    def is_of_part(self) -> bool:
        """Whether it is about a thread or a time."""
        return self.thread is not None or bool(self.begin) or self.end is not None

    @property
    def times_inner(self) -> bool:
        """Whether it is asked what calls took themselves."""
        return self.action == "histogram" and not self.by and _is_duration(self.measured[0])


def ask(
    by: Sequence[str],
    columns: Sequence[str],
    hist: str,
    where: str,
    functions: frozenset[str] | None = None,
    bound: int = -1,
) -> Asked:
    """Return what is asked. Raises `UsageError`."""
    names, keys = parse_keys(by)
    if hist:
        measured = (argument(hist, "hist"),)
        return Asked("histogram", names, keys, (), measured, where, functions, bound)
    shown, values = parse_columns(columns)
    return Asked("count", names, keys, shown, values, where, functions, bound)


def _is_duration(asked: ArgExpression) -> bool:
    return isinstance(asked.node, Name) and asked.node.name == "duration"


UNCOMPARED = Alike(CountCell(0, 0, (), ()), ())
"""Calls of which a value was not recorded whole that a condition names."""


class Tally(Visitor):
    """A visitor that counts calls and points as is ``asked``. ``unended`` are the calls without the
    result or duration that is asked for, ``tails`` those of them that jumped to another function;
    ``uncompared`` are those of which a value was not recorded whole that the condition names.
    ``lacking`` are functions that lack a value. Raises `UsageError`, also by its methods."""

    def __init__(self, plan: Plan, asked: Asked) -> None:
        self.counted = self.unended = self.tails = self.uncompared = 0
        self.lacking: set[str] = set()
        self._asked = asked
        looked = Looked()
        self._test = RecordedTest(asked.where, looked) if asked.where else None
        self._keys = [RecordedValue(key, "by", looked) for key in asked.keys]
        option = "hist" if asked.action == "histogram" else "sum"
        self._values = [
            None if _is_duration(each) else RecordedValue(each, option, looked)
            for each in asked.measured
        ]
        trees = [each.node for each in (*asked.keys, *asked.measured) if not _is_duration(each)]
        tests = [self._test.tree] if self._test else []
        self._names = {name for tree in (*tests, *trees) for name in names_in(tree) or ()}
        self._at_return = not self._names.isdisjoint(AT_RETURN) or None in self._values
        self._at_return |= asked.bound >= 0
        self._cells: dict[tuple[int, int, str], Cell] = {}
        self._threads: dict[int, str] = {}
        self._inner: dict[tuple[int, int], list[int]] = {}
        self._first: int | None = None
        self.grow(plan)

    def grow(self, plan: Plan) -> None:
        """The plan has grown."""
        self._plan = plan

    @property
    def plan(self) -> Plan:
        """What the rows are shown by."""
        slot = SLOT_DURATION if None in self._values else -1
        probes = tuple(
            [
                replace(probe, action=self._asked.action, aggregates=slot, grouping=None)
                for probe in self._plan.probes
            ]
        )
        return replace(self._plan, by=self._asked.by, columns=self._asked.columns, probes=probes)

    def check(self) -> None:
        """Raise `UsageError` where no call has had a value that is asked for."""
        for each in (self._test, *self._keys, *self._values):
            if each is not None:
                each.check()

    def aggregates(self) -> Aggregates:
        """Return what was counted until now."""
        return Aggregates(0, tuple([row for c in self._cells.values() for row in c.rows()]))

    def of_losses(self, losses: Losses) -> Losses:
        """Return what was lost by a trace, with what was left out here."""
        unended = self.unended - self.tails
        return replace(losses, uncompared_tail=self.tails, uncompared_open=unended)

    # --------------------------------------------------------- one after the other

    def thread(self, thread: Thread) -> None:
        self._threads[thread.tid] = thread.name

    def entry(self, call: Call) -> None:
        self._first = call.start if self._first is None else self._first

    def exit(self, call: Call) -> None:
        call.thread_name = self._threads.get(call.tid, "")
        took = call.duration if call.end == "returned" else None
        alike = self._count(call, took)
        if self._asked.times_inner:
            lane = call.pid, call.goroutine or call.tid
            self._nest([lane], [call.depth], [took or 0], [alike])

    def point(self, point: Call) -> None:
        self.entry(point)
        point.thread_name = self._threads.get(point.tid, "")
        self._count(point, None)

    def _count(self, call: Call, took: int | None) -> Alike | None:
        """Count a call; what it counts for, None if it does not."""
        if not self._selects(call.probe) or not self._is_of_part(call):
            return None
        if self._at_return and took is None:
            self.unended += 1
            self.tails += call.end == "tail"
            return None
        if took is not None and took <= self._asked.bound:
            return None
        alike = self._work_out(call)
        self._add(alike, 1, () if took is None else (took,))
        return alike

    def _add(self, alike: Alike | None, count: int, times: Sequence[int]) -> None:
        if alike is UNCOMPARED:
            self.uncompared += count
        elif alike is not None:
            self.counted += count
            alike.cell.add(count, alike.amounts, times)

    def _selects(self, probe: int) -> bool:
        chosen, function = self._asked.functions, self._plan.probes[probe].function
        return chosen is None or (function >= 0 and self._plan.functions[function].name in chosen)

    def _is_of_part(self, call: Call) -> bool:
        """Whether a call is of the thread and the time that are asked about."""
        asked, since = self._asked, call.start - (self._first or 0)
        if not asked.is_of_part:  # slow calls come as they end, so that others began before
            return True
        if not self._is_of_thread(call.tid, call.goroutine):
            return False
        return since >= asked.begin and (asked.end is None or since <= asked.end)

    def _is_of_thread(self, tid: int, goroutine: int) -> bool:
        thread = self._asked.thread
        known = str(tid), str(goroutine), self._threads.get(tid)
        return thread is None or thread in known

    def _work_out(self, call: Call) -> Alike | None:
        """What calls like this one count for, by what their values are; None where they do not."""
        plan = self._plan
        if test := self._test:
            uncompared = test.uncompared
            if not test.holds(call, plan):
                return UNCOMPARED if test.uncompared > uncompared else None
        try:
            shown = tuple([key.read(call, plan) for key in self._keys])
            amounts = (*[None if v is None else v.amount(call, plan) for v in self._values],)
        except LacksName:
            self.lacking.add(call.name)
            return None
        key = call.probe, call.pid, repr(shown)
        cell = self._cells.get(key)
        if cell is None:
            kind = HistogramCell if self._asked.action == "histogram" else CountCell
            timed = [value is None for value in self._values]
            cell = self._cells[key] = kind(call.probe, call.pid, shown, timed)
        known = cell.alike
        if known is None or known.amounts != amounts:
            known = cell.alike = Alike(cell, amounts)
        return known

    def _nest(
        self,
        lanes: Iterable[tuple[int, int]],
        depths: Iterable[int],
        times: Iterable[int],
        found: Iterable[Alike | None],
    ) -> None:
        """Know of calls that end one after the other what those inside of them took."""
        known = self._inner
        for lane, depth, took, alike in zip(lanes, depths, times, found, strict=True):
            inner = known.get(lane)
            if inner is None:
                inner = known[lane] = [0, 0]
            while len(inner) < depth + 2:
                inner.append(0)
            if alike is None or alike is UNCOMPARED:
                inner[depth] += inner[depth + 1]
            else:
                inner[depth] += took
                alike.cell.inner += inner[depth + 1]
            inner[depth + 1] = 0
