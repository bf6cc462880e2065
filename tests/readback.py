"""A check of every plan and every trace of the suite: written to a capture and read back
they are the same, and every format shows the same of them.

As a program this is ``lbtrace`` with that check; the kernel tests run it. With
LBTRACE_READBACK=0 it is lbtrace alone: the check says nothing of the kernel, and starting
lbtrace takes twice as long with it.
"""

from __future__ import annotations

import functools
import io
import os
import random
import struct
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

EVENTS = 250
"""Events of a trace that are compared, and of a plan that are made up."""

PROBES = 30
"""Probes of a plan for which events are made up."""


def install() -> None:
    """Check whatever is planned and traced in this process from now on."""
    if os.environ.get("LBTRACE_READBACK") == "0":
        return
    import lbtrace.plan
    import lbtrace.plan.planner
    from lbtrace.model import Addition
    from lbtrace.model.wire import EVENT_SIZE
    from lbtrace.session.session import Session

    plan_it, trace_it = lbtrace.plan.planner.make_plan, Session.batches

    @functools.wraps(plan_it)
    def make_plan(*args: Any, **options: Any) -> Any:
        plan = plan_it(*args, **options)
        compare(plan, [invented(plan)], PROBES)
        return plan

    @functools.wraps(trace_it)
    def batches(self: Any) -> Iterator[Any]:
        began, kept, room = self.plan, [], EVENTS
        for batch in trace_it(self):
            events = getattr(batch, "events", None)
            if events is None and (room > 0 or isinstance(batch, Addition)):
                kept.append(batch)
            elif events is not None and room > 0:
                kept.append(first(batch, room))
                room -= len(events) // EVENT_SIZE
            yield batch
        compare(began, kept)

    lbtrace.plan.planner.make_plan = lbtrace.plan.make_plan = make_plan
    Session.batches = batches  # type: ignore[method-assign]


def first(batch: Any, most: int) -> Any:
    """The first events of a batch, with what belongs to them; one batch may have very many."""
    from msgspec.structs import replace

    from lbtrace.model.wire import EVENT_SIZE, decode

    if len(batch.events) <= most * EVENT_SIZE:
        return batch
    cut = replace(batch, events=batch.events[: most * EVENT_SIZE])
    return replace(cut, blobs=batch.blobs[: sum(event.blob for event in decode(cut))])


def compare(plan: Any, batches: Iterable[Any], probes: int | None = None) -> None:
    """Raises AssertionError where a capture does not hold what is in memory, or would show
    something else of the events of the first ``probes``."""
    from msgspec.structs import replace

    from lbtrace.capture import CaptureWriter, check_plan, read_capture
    from lbtrace.dwarf.code_names import with_names
    from lbtrace.model import Addition, Losses

    check_plan(plan)
    grown = plan
    with tempfile.NamedTemporaryFile(suffix=".lbt") as file:
        writer = CaptureWriter(file.raw, plan)  # type: ignore[attr-defined]
        for batch in batches:
            writer.write(batch)
            if isinstance(batch, Addition):
                grown = grown.grown(batch)
        writer.finish(Losses())
        with read_capture(file.name) as capture:
            assert capture.plan == with_names(grown)
            recorded = replace(capture.plan, probes=capture.plan.probes[:probes])
            read_back = shown(recorded, capture.batches())
            assert capture.complete
            whole = [*map(plain, capture.batches())]
        with read_capture(file.name, salvage=True) as capture:
            assert [*map(plain, capture.batches())] == whole, "salvaging changes what is whole"
            assert not capture.left_out
    live = shown(replace(plan, probes=plan.probes[:probes]), batches)
    for name, text in live.items():
        assert read_back[name] == text, f"{name} of a capture differs"


def plain(batch: Any) -> Any:
    """A batch as it can be compared."""
    events = getattr(batch, "events", None)
    return batch if events is None else (bytes(events), bytes(batch.blobs), batch.threads)


class AllFormats:
    """What a matcher drives, as all the formats at once."""

    takes_fast_batches = False

    def __init__(self, plan: Any) -> None:
        from lbtrace.sinks import FORMATS

        self.streams = {row.name: io.StringIO() for row in FORMATS.values() if not row.is_capture}
        self._sinks = [FORMATS[n].load()(stream, plan) for n, stream in self.streams.items()]

    def __getattr__(self, step: str) -> Any:
        def forward(*reported: Any) -> None:
            for sink in self._sinks:
                getattr(sink, step)(*reported)

        return forward


def shown(plan: Any, batches: Iterable[Any]) -> dict[str, str]:
    """What each format shows."""
    from lbtrace.commands.output import render
    from lbtrace.model import Losses

    formats: Any = AllFormats(plan)
    render(plan, batches, formats, lambda: (Losses(), False))
    return {name: stream.getvalue() for name, stream in formats.streams.items()}


def invented(plan: Any) -> Any:
    """Events that no program has made: for each of the first probes some, of any values."""
    from lbtrace.model import Batch, Thread
    from lbtrace.probes import kind_of_events

    rng = random.Random(len(plan.probes))
    events, blobs = [], []
    for number, probe in enumerate(plan.probes[:PROBES]):
        kind, fetches = kind_of_events(probe), probe.fetches
        words = [rng.choice((0, 1, 5, rng.getrandbits(64))) for _ in range(max(6, len(fetches)))]
        texts = b""
        for slot, fetch in enumerate(fetches):
            if fetch.read in ("string", "bytes"):
                text = rng.randbytes(rng.randrange(40))
                words[slot] = len(text) | len(text) + rng.choice((0, 7)) << 32
                texts += text
        blob = struct.pack(f"<{len(words) - 6}Q", *words[6:]) + texts
        faults = rng.choice((0, 0, 1, 2))
        if faults:
            blob = blob[: 8 * (len(words) - 6)]
            faults = 0xFFFF
        hooked = probe.source == "uretprobe"
        time, frame = 1000 * number, (1 << 46) - 64 * (number - hooked)
        head = struct.pack("<QQQIIIHHII", time, frame, 0, number, 5, 7, kind, faults, 0, len(blob))
        events.append(head + struct.pack("<6Q", *words[:6]))
        blobs.append(blob)
    return Batch(b"".join(events), b"".join(blobs), (Thread(5, 7, "invented"),))


def run() -> NoReturn:
    """lbtrace's command line, with the check."""
    if sys.argv[1:2] == ["attach"]:
        install()
    from lbtrace.commands import main

    try:
        sys.exit(main())
    except AssertionError:
        traceback.print_exc()
        os._exit(70)


if __name__ == "__main__":
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        sys.path[0] = os.getcwd()  # as with -m
    run()
