"""Events decoded and matched a second, and the CPU time that a million-call capture takes to
export.

Beside decoding runs a plain loop over the same records with struct alone, so
that the ratio means something on any machine.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
from collections import deque
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

from lbtrace.calls.fast_path import FastBatch, FastMatcher
from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.visitor import Visitor
from lbtrace.capture import Capture, CaptureWriter, read_capture
from lbtrace.commands.output import render
from lbtrace.model import (
    CLOSE,
    OPEN,
    Batch,
    Binary,
    Function,
    Integer,
    Losses,
    Plan,
    Probe,
    Site,
    Thread,
    Value,
)
from lbtrace.model.wire import EVENT, decode
from lbtrace.sinks import FORMATS

CALLS = 1_000_000
PROBES = (Probe(Site(64, 64), "opens", 0), Probe(Site(64, 64), "closes", 0, source="uretprobe"))
BATCH = 8192


def main() -> None:
    """Print the measurements."""
    directory = Path(tempfile.mkdtemp())
    path = directory / "million.lbt"
    start = perf_counter()
    write(path)
    print(f"capture of {CALLS:,} calls: {path.stat().st_size / 1e6:.0f} MB", flush=True)

    with read_capture(str(path)) as capture:
        batches, plan = list(capture.batches()), capture.plan
    events = 2 * CALLS
    start = perf_counter()
    for batch in batches:
        for _ in EVENT.iter_unpack(batch.events):
            pass
    plain = perf_counter() - start
    start = perf_counter()
    for batch in batches:
        deque(decode(batch), maxlen=0)
    decoding = perf_counter() - start
    start = perf_counter()
    for batch in batches:
        for event in decode(batch):
            _ = event
    loop = perf_counter() - start
    print(
        f"decode: {events / decoding / 1e6:.1f} M events/s ({decoding / plain:.2f}x struct alone,"
        f" {events / loop / 1e6:.1f} M/s in a for loop)",
        flush=True,
    )

    nobody = Nobody()
    matchers = (FastMatcher(plan, nobody), CallMatcher(plan, nobody))
    for words, matcher in zip(("plain calls (at least 2)", "one by one"), matchers, strict=True):
        start = process_time()
        for batch in batches:
            matcher.feed(batch)
        rate = events / (process_time() - start) / 1e6
        print(f"match, {words}: {rate:.1f} M events/s", flush=True)
    del batches

    for name, row in FORMATS.items():
        if row.is_capture or (len(sys.argv) > 1 and name not in sys.argv[1:]):
            continue
        start = process_time()
        output = directory / f"out{row.suffix}"
        with read_capture(str(path)) as capture, open(output, "w", buffering=1 << 17) as stream:
            sink = row.load()(stream, capture.plan)
            account = partial(account_of, capture)
            render(capture.plan, capture.batches(), sink, account)
        took = process_time() - start
        print(
            f"export {name:<7} {took:5.2f} s (at most 2.5), {output.stat().st_size / 1e6:4.0f} MB",
            flush=True,
        )
        output.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"at most {peak:.0f} MB of memory, the capture in it", flush=True)
    path.unlink()
    directory.rmdir()


class Nobody(Visitor):
    """A visitor that ignores all calls."""

    def takes(self, fast_batch: FastBatch) -> bool:
        return True

    def fast_batch(self, fast_batch: FastBatch) -> None: ...


def account_of(capture: Capture) -> tuple[Losses, bool]:
    return capture.losses, not capture.complete


def write(path: Path) -> None:
    """A capture of random walks up and down the stack of four threads."""
    long = Integer("int", 4, True)
    function = Function(
        "fib", 64, 64, 64, parameters=(Value("n", long, 0),), result=Value("", long, 0), typed=True
    )
    plan = Plan((Binary("./fib"),), (function,), PROBES)
    random.seed(1)
    stacks: dict[int, int] = dict.fromkeys(range(100, 104), 0)
    records: list[bytes] = []
    made, time, tid = 0, 10**12, 100
    with open(path, "wb", buffering=0) as stream:
        writer = CaptureWriter(stream, plan)
        writer.write(Batch(b"", b"", tuple(Thread(100, tid, f"fib-{tid}") for tid in stacks)))
        while made < CALLS or any(stacks.values()):
            time += random.randrange(200, 900)
            if random.random() < 0.01:
                tid = random.choice(list(stacks))
            depth = stacks[tid]
            if made < CALLS and (depth == 0 or (depth < 40 and random.random() < 0.5)):
                kind, depth, made = OPEN, depth + 1, made + 1
                stacks[tid] = depth
            elif depth:
                kind, stacks[tid] = CLOSE, depth - 1
            else:
                tid = max(stacks, key=lambda tid: stacks[tid])
                continue
            head = (time, 2**47 - 48 * depth, 0, kind - OPEN, 100, tid, kind, 0, 0, 0)
            records.append(EVENT.pack(*head, depth, 0, 0, 0, 0, 0))
            if len(records) == BATCH:
                writer.write(Batch(b"".join(records)))
                records = []
        writer.write(Batch(b"".join(records)))
        writer.finish(Losses())


if __name__ == "__main__":
    main()
