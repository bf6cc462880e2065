"""Leaves out calls that are not slow: of the batches of a trace or a capture, what slow calls, all
below them and the calls around them are made of.

Native code finds the ends of calls, by simpler rules than `CallMatcher`, which only decide what is
kept. What is below a call waits in memory until the call has ended. A call that takes longer than
`LONGEST` times the bound, and a second, is a loop rather than one that is slow: so is one with
more than `LARGEST` events below it, and ``main``. They are shown around slow calls, and what else
is below them is counted. Where functions are named, only their calls can be slow, and those are
shown from when they have taken so long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lbtrace.calls._fast_path import ffi, lib
from lbtrace.calls.probe_pairs import ProbePairs
from lbtrace.model import Addition, Aggregates, Batch, Plan, Thread
from lbtrace.model.wire import EVENT_SIZE, decode_at
from lbtrace.probes import LANDINGS, STACK_ROLES
from lbtrace.text import counted

LONGEST = 20
"""Times the bound that a call may take to be shown with all below it, or a second."""

LARGEST = int(lib.LBT_SLOW_EVENTS)
"""Events that wait for the end of a call, at most."""

MOST = 128 << 20
"""Bytes that wait, of all threads."""

PASSED = STACK_ROLES | {"exchange", "lane end", "panic"}
"""Roles of probes that say how all others are understood."""


class SlowCalls:
    """Filters the batches of a ``plan``: calls that took longer than ``bound`` ns, of
    ``functions`` if these are named.
    """

    def __init__(self, plan: Plan, bound: int, functions: frozenset[str] | None = None) -> None:
        self._functions = functions
        self._longest = 0 if functions is not None else max(1_000_000_000, LONGEST * bound)
        self._native = ffi.gc(lib.lbt_slow_new(bound, self._longest, MOST), lib.lbt_slow_free)
        if not self._native:
            raise MemoryError
        self._untold: dict[int, Thread] = {}
        self._latest = 0
        self.grow(plan)

    def describe(self) -> list[str]:
        """Return lines that say what was left out."""
        native, lines = self._native, []
        if quick := native.left_out - native.jumped:
            calls = "call that was" if quick == 1 else "calls that were"
            lines.append(f"  left out: {quick:,} {calls} not slow")
        if native.beyond:
            lines.append(
                f"  {native.beyond:,} of them were below calls of more than {LARGEST // 2:,} calls"
                f" or {self._longest / 1e9:g} s, which are not kept whole"
            )
        if native.jumped:
            calls, where = counted(native.jumped, "call"), "to a function whose return is not seen"
            lines.append(f"  not shown: {calls} that jumped {where}, perhaps slow")
        if native.unsure:
            lines.append(
                f"  not shown: {counted(native.unsure, 'call')} without an end, perhaps slow"
            )
        return lines

    def grow(self, plan: Plan) -> None:
        """The plan has grown by probes."""
        self._plan = plan
        pairs = ProbePairs(plan)
        openings = {p.pair: n for n, p in enumerate(plan.probes) if p.role == "opens" and p.pair}
        closings = {p.pair for p in plan.probes if p.role == "closes" and p.pair}
        made = [self._meaning(pairs, n, openings, closings) for n in range(len(plan.probes))]
        _check(
            lib.lbt_slow_learn(self._native, ffi.new("struct lbt_slow_probe[]", made), len(made))
        )

    def filter(
        self, batches: Iterable[Batch | Aggregates | Addition], *, live: bool = False
    ) -> Iterator[Batch | Aggregates | Addition]:
        """Yield what is to be shown; of a ``live`` trace, batches without events as well."""
        for batch in batches:
            if not isinstance(batch, Batch):
                if isinstance(batch, Addition):
                    self.grow(self._plan.grown(batch))
                yield batch
                continue
            if batch.gap:
                _check(lib.lbt_slow_feed(self._native, ffi.NULL, 0, ffi.NULL))
                yield from self._end()
            yield self._feed(batch, live)
        _check(lib.lbt_slow_feed(self._native, ffi.NULL, 0, ffi.NULL))
        yield from self._end()

    def _feed(self, batch: Batch, live: bool) -> Batch:
        count = len(batch.events) // EVENT_SIZE
        self._untold.update((thread.tid, thread) for thread in batch.threads)
        events, blobs = ffi.from_buffer(batch.events), ffi.from_buffer(batch.blobs)
        _check(lib.lbt_slow_feed(self._native, events, count, blobs))
        if count:
            self._latest = max(self._latest, decode_at(batch.events, count - 1).time)
        elif live:
            from time import monotonic_ns

            self._latest = max(self._latest, monotonic_ns())
        _check(lib.lbt_slow_tick(self._native, self._latest))
        return self._shown(gap=batch.gap)

    def _end(self) -> Iterator[Batch]:
        _check(lib.lbt_slow_end(self._native, self._latest))
        if self._native.shown.count:
            yield self._shown()

    def _shown(self, *, gap: bool = False) -> Batch:
        """What native code shows now, with the names of its threads."""
        shown = self._native.shown
        size = shown.count * EVENT_SIZE
        events = bytes(ffi.buffer(shown.events, size)) if size else b""
        blobs = bytes(ffi.buffer(shown.blobs, shown.blob_size)) if shown.blob_size else b""
        tids = memoryview(events).cast("I")[8 :: EVENT_SIZE // 4].tolist() if events else []
        threads = [self._untold.pop(tid) for tid in {*tids} & self._untold.keys()]
        first = decode_at(events, 0).time if events else 0
        # A thread may have changed its name since what is shown now began.
        named = tuple(replace(each, time=min(each.time, first)) for each in threads)
        return Batch(events, blobs, named, int(self._native.entries), gap)

    def _meaning(
        self, pairs: ProbePairs, number: int, openings: dict[str, int], closings: set[str]
    ) -> tuple[int, int, int, bool, bool, bool, bool]:
        """A ``struct lbt_slow_probe``."""
        probe = self._plan.probes[number]
        if probe.pair:
            role, opening = lib.LBT_SLOW_OTHER, openings.get(probe.pair, -1)
            if opening < 0 or probe.pair not in closings:
                opening = 0
            elif probe.role == "opens":
                role = lib.LBT_SLOW_PAIR_OPENS
            elif probe.role == "closes":
                role = lib.LBT_SLOW_PAIR_CLOSES
            return opening, 0, role, probe.nests, True, False, self._chooses(probe.function)
        role = lib.LBT_SLOW_PASSES if probe.role in PASSED else lib.LBT_SLOW_OTHER
        if probe.role in LANDINGS:
            role = lib.LBT_SLOW_LANDS
        elif probe.role == "tail return":
            role = lib.LBT_SLOW_RELAY
        elif pairs.opens(number):
            role = lib.LBT_SLOW_OPENS
        elif pairs.returns(number) or pairs.jumps(number):
            role = lib.LBT_SLOW_JUMPS if probe.goes_on else lib.LBT_SLOW_CLOSES
        entry, watched = max(pairs.entry_of(number), 0), pairs.sees_returns(number)
        hooked, chosen = pairs.is_hooked(number), self._chooses(probe.function)
        unseen = pairs.jumps(number) and not probe.goes_on
        return entry, probe.relay, role, hooked, watched, unseen, chosen

    def _chooses(self, function: int) -> bool:
        """Whether calls of a function can be slow, and not just hold those that are."""
        if function < 0:
            return False
        name = self._plan.functions[function].name
        if self._functions is not None:
            return name in self._functions
        return name != "main" and not name.endswith((".main", "::main"))


def _check(failed: int) -> None:
    if failed:
        raise MemoryError
