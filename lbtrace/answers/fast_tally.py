"""Counts many calls at once, of those that native code has paired.

Calls whose events have the same values are the same to all expressions: these are worked out once
for each kind of call.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from operator import itemgetter, sub
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.answers.cell import Alike
from lbtrace.answers.tally import Asked, Tally
from lbtrace.calls._fast_path import ffi
from lbtrace.calls.decoders import is_plain
from lbtrace.calls.fast_path import LATEST, FastBatch
from lbtrace.calls.probe_decoding import ProbeDecoders
from lbtrace.expressions.tree import parts_of
from lbtrace.model import Aggregates, Fetch, Plan, Value
from lbtrace.model.wire import EVENT_SIZE, decode_at
from lbtrace.model.wire_limits import VALUES

MOST_KINDS = 1 << 16
"""Kinds of calls that are remembered, at most."""

MOST_PENDING = 1 << 18
"""Calls that are not yet counted by kind, at most."""

OF_THREADS = frozenset({"tid", "comm", "goroutine"})
"""Names of what calls of one process differ in besides their values."""

WORDS = EVENT_SIZE // 8
TIME, LANE, PROBE, THREAD, SIZE, FIRST = 0, 2, 3, 4, 5, 6
"""Words of a ``struct lbt_event`` (bpf_src/wire.h). The process is in the upper half of that of the
probe, the faults are in the last quarter of that of the thread, the size of what accompanies the
event in the upper half of its word."""

LOW = 0xFFFF_FFFF

_UNKNOWN: Any = object()


class _Depends(Struct):
    """What of an event the values of calls depend on: the slots of words, and whether also on what
    accompanies it."""

    slots: set[int]
    blob: bool = False

    def add(self, values: tuple[Value, ...], fetches: tuple[Fetch, ...]) -> None:
        """Depend on values, too, which ``fetches`` get."""
        named = (part.slot for part in parts_of(values) if isinstance(part, Value))
        self.slots.update(slot for slot in named if 0 <= slot < VALUES)
        self.blob |= not is_plain(values, fetches)


def gather(column: Any, rows: Sequence[int]) -> Sequence[int]:
    """Return what a column has in rows."""
    return itemgetter(*rows)(column) if len(rows) > 1 else [column[row] for row in rows]


class _Rows:
    """The rows of a fast batch: ``ended`` are those of calls that end, ``openings`` the rows that
    opened these, negative for the calls that were open ``before``."""

    def __init__(self, batch: FastBatch, opening: Set[int]) -> None:
        native = batch.native
        self.batch = batch
        self._words = batch.events.cast("Q")
        words = self._words[PROBE::WORDS].tolist()
        self.probes = {word & LOW for word in {*words}}
        ends = {word for word in {*words} if word & LOW not in opening}
        rows = [row for row, word in enumerate(words) if word in ends]
        self.depths = gather(ffi.unpack(native.depths, batch.count), rows)
        if native.deepest >= native.max_depth:
            rows = [row for row, n in zip(rows, self.depths, strict=True) if n < native.max_depth]
            self.depths = gather(native.depths, rows)
        self.ended = rows
        self.openings = gather(ffi.unpack(native.calls, batch.count), rows)
        self.before = [call for lane in batch.lanes for call in lane.before]
        self.from_before = [n for n, row in enumerate(self.openings) if row < 0]
        self.opened = [*self.openings]
        for number in self.from_before:
            self.opened[number] = 0

    @cached_property
    def took(self) -> Sequence[int]:
        """How long the calls took, in ns."""
        return [*map(sub, self.word(TIME, self.ended), self.starts)]

    @cached_property
    def starts(self) -> Sequence[int]:
        """When the calls began, in ns."""
        starts = [*self.word(TIME, self.opened)]
        for number in self.from_before:
            starts[number] = self.before[~self.openings[number]].start
        return starts

    @cached_property
    def threads(self) -> Sequence[tuple[int, int]]:
        """By which thread the calls were made, and of which goroutine."""
        tids = [word & LOW for word in self.word(THREAD, self.opened)]
        made = [*zip(tids, self.word(LANE, self.opened), strict=True)]
        for number in self.from_before:
            call = self.before[~self.openings[number]]
            made[number] = call.tid, call.goroutine
        return made

    def word(self, number: int, rows: Sequence[int]) -> Sequence[int]:
        """Return a word of the events of rows."""
        return gather(self._words[number::WORDS].tolist(), rows)

    def columns(self, depends: _Depends, rows: Sequence[int]) -> Iterator[Sequence[object]]:
        """Yield what the values of calls depend on of the events of rows."""
        yield self.word(PROBE, rows)
        for slot in depends.slots:
            yield self.word(FIRST + slot, rows)
        if depends.slots or depends.blob:
            yield [word >> 48 for word in self.word(THREAD, rows)]
        if depends.blob:
            data = bytes(self.batch.blobs[: self.batch.blob_size])
            begins = gather(ffi.unpack(self.batch.native.blobs, self.batch.count), rows)
            sizes = [word >> 32 for word in self.word(SIZE, rows)]
            yield [data[at : at + n] for at, n in zip(begins, sizes, strict=True)]


class FastTally(Tally):
    """A `Tally` that takes fast batches."""

    def __init__(self, plan: Plan, asked: Asked) -> None:
        self._counts = Counter[Alike | None]()
        self._times = defaultdict[Alike | None, list[int]](list)
        self._pending = 0
        super().__init__(plan, asked)

    def grow(self, plan: Plan) -> None:
        """See `Tally`."""
        super().grow(plan)
        self._decoders = ProbeDecoders(plan)
        probes = plan.probes
        self._opening = {n for n, probe in enumerate(probes) if probe.role == "opens"}
        self._tails = {n for n, p in enumerate(probes) if p.role == "tail" and not p.goes_on}
        self._goes_on = any(probe.goes_on for probe in probes)
        self._kinds: dict[tuple[object, ...], Alike | None] = {}
        self._entry, self._return = _Depends(set()), _Depends(set())
        self._met: set[int] = set()

    def takes(self, fast_batch: FastBatch) -> bool:
        """See `lbtrace.calls.fast_path.FastVisitor`. Results of calls that go on elsewhere are left
        to `lbtrace.calls.matcher`."""
        return not self._goes_on or "retval" not in self._names

    def fast_batch(self, fast_batch: FastBatch) -> None:
        """Count the calls that end in a fast batch."""
        rows = _Rows(fast_batch, self._opening)
        found = self._find_all(rows)
        if self._asked.is_of_part:
            self._leave_out_others(rows, found)
        if self._at_return:
            self._select(rows, found)
        if None in self._values:
            for alike, took in zip(found, rows.took, strict=True):
                self._times[alike].append(took)
        else:
            self._counts.update(found)
        self._pending += len(found)
        if self._pending > MOST_PENDING:
            self._settle()
        if self._asked.times_inner:
            self._nest_all(rows, found)

    def aggregates(self) -> Aggregates:
        """See `Tally`."""
        self._settle()
        return super().aggregates()

    def _settle(self) -> None:
        """Count what calls of each kind there were."""
        for alike, count in self._counts.items():
            self._add(alike, count, ())
        for alike, times in self._times.items():
            self._add(alike, len(times), times)
        self._counts.clear()
        self._times.clear()
        self._pending = 0

    def _find_all(self, rows: _Rows) -> list[Alike | None]:
        """What each call counts for."""
        for number in rows.probes - self._met:
            self._meet(number)
        known = self._kinds
        if len(known) > MOST_KINDS:
            known.clear()
        kinds = [*zip(*self._columns(rows), strict=True)]
        found = [known.get(kind, _UNKNOWN) for kind in kinds]
        for number in rows.from_before:
            found[number] = self._find(rows, number)
        for number in [n for n, alike in enumerate(found) if alike is _UNKNOWN]:
            if (kind := kinds[number]) not in known:
                known[kind] = self._find(rows, number)
            found[number] = known[kind]
        return found

    def _leave_out_others(self, rows: _Rows, found: list[Alike | None]) -> None:
        """Leave out calls that are not of the thread or the time that are asked about."""
        asked, first = self._asked, self._first or 0
        if asked.begin or asked.end is not None:
            last = first + (LATEST if asked.end is None else asked.end)
            times = zip(found, rows.starts, strict=True)
            found[:] = [a if first + asked.begin <= time <= last else None for a, time in times]
        if asked.thread is not None:
            chosen = {each for each in {*rows.threads} if self._is_of_thread(*each)}
            threads = zip(found, rows.threads, strict=True)
            found[:] = [a if thread in chosen else None for a, thread in threads]

    def _select(self, rows: _Rows, found: list[Alike | None]) -> None:
        """Leave out calls without a return, and those that took no longer than is asked for."""
        bound = self._asked.bound
        if bound >= 0:
            found[:] = [a if t > bound else None for a, t in zip(found, rows.took, strict=True)]
        if not self._tails.isdisjoint(rows.probes):
            for number, word in enumerate(rows.word(PROBE, rows.ended)):
                if word & LOW in self._tails and found[number] is not None:
                    found[number] = None
                    self.unended += 1
                    self.tails += 1

    def _nest_all(self, rows: _Rows, found: Sequence[Alike | None]) -> None:
        lanes, threads, probes = (rows.word(n, rows.ended) for n in (LANE, THREAD, PROBE))
        pids = [word >> 32 for word in probes]
        if any(lanes):
            lanes = [lane or word & LOW for lane, word in zip(lanes, threads, strict=True)]
        else:
            lanes = [word & LOW for word in threads]
        self._nest(zip(pids, lanes, strict=True), rows.depths, rows.took, found)

    def _columns(self, rows: _Rows) -> Iterator[Sequence[object]]:
        """Yield what kinds of calls differ in."""
        yield from rows.columns(self._entry, rows.opened)
        if self._return.slots or self._return.blob:
            yield from rows.columns(self._return, rows.ended)
        if not self._names.isdisjoint(OF_THREADS):
            yield rows.word(THREAD, rows.opened)
            yield rows.word(LANE, rows.opened)
        if "duration" in self._names:
            yield rows.took

    def _meet(self, number: int) -> None:
        """Learn what the values of the calls of a probe depend on."""
        self._met.add(number)
        self._kinds.clear()
        probe = self._plan.probes[number]
        if probe.function < 0:
            return
        function = self._plan.functions[probe.function]
        if number in self._opening:
            named = [v for n, v in enumerate(function.parameters) if self._names_value(v, n)]
            self._entry.add((*named,), probe.fetches)
        elif (result := function.result) and ("retval" in self._names or result.members):
            self._return.add((result,), probe.fetches)

    def _names_value(self, value: Value, number: int) -> bool:
        names = {*re.findall(r"\w+", value.name), f"arg{number}"}
        return not self._names.isdisjoint(names)

    def _find(self, rows: _Rows, number: int) -> Alike | None:
        """What a call counts for."""
        opening, batch = rows.openings[number], rows.batch
        row = rows.ended[number]
        if opening < 0:
            call = replace(rows.before[~opening])
        else:
            event = decode_at(batch.events, opening)
            call = self._decoders[event.probe].begin(event, batch.blob(opening))
        if not self._selects(call.probe):
            return None
        ending = decode_at(batch.events, row)
        call.duration, call.end = rows.took[number], "returned"
        if ending.probe in self._tails:
            call.end = "tail"
        elif "retval" in self._names or self._return.blob:
            call.result = self._decoders[ending.probe].result(ending, batch.blob(row))
        call.thread_name = self._threads.get(call.tid, "")
        return self._work_out(call)
