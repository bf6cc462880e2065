"""Events decoded a second, and how long a million-call capture takes to export.

Beside decoding runs a plain loop over the same records with struct alone, so
that the ratio means something on any machine.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import deque
from pathlib import Path
from time import perf_counter

from lbtrace.calls import CallMatcher
from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.model import (
    ENTRY,
    RETURN,
    Batch,
    Binary,
    Function,
    Integer,
    Losses,
    Plan,
    Probe,
    Site,
    Summary,
    Thread,
    Value,
)
from lbtrace.sinks import FORMATS
from lbtrace.wire import EVENT, decode

CALLS = 1_000_000
BATCH = 8192


def main() -> None:
    """Print the measurements."""
    directory = Path(tempfile.mkdtemp())
    path = directory / "million.lbt"
    start = perf_counter()
    write(path)
    print(f"capture of {CALLS:,} calls: {path.stat().st_size / 1e6:.0f} MB", flush=True)

    with read_capture(str(path)) as capture:
        batches = list(capture.batches())
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
    del batches
    print(
        f"decode: {events / decoding / 1e6:.1f} M events/s ({decoding / plain:.2f}x struct alone,"
        f" {events / loop / 1e6:.1f} M/s in a for loop)",
        flush=True,
    )

    for name, row in FORMATS.items():
        if row.is_capture or (len(sys.argv) > 1 and name not in sys.argv[1:]):
            continue
        start = perf_counter()
        output = directory / f"out{row.suffix}"
        with read_capture(str(path)) as capture, open(output, "w", buffering=1 << 17) as stream:
            sink = row.load()(stream, capture.plan)
            matcher = CallMatcher(capture.plan, sink)
            for batch in capture.batches():
                matcher.feed(batch)
            matcher.finish()
            sink.end(Summary(calls=matcher.calls, losses=capture.losses))
        took = perf_counter() - start
        print(f"export {name:<7} {took:5.2f} s, {output.stat().st_size / 1e6:4.0f} MB", flush=True)
        output.unlink()
    path.unlink()
    directory.rmdir()


def write(path: Path) -> None:
    """A capture of random walks up and down the stack of four threads."""
    long = Integer("int", 4, True)
    function = Function(
        "fib", 64, 64, 64, parameters=(Value("n", long, 0),), result=Value("", long, 0), typed=True
    )
    plan = Plan((Binary("./fib"),), (function,), (Probe(0, "call", Site(64, 64)),))
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
                kind, depth, made = ENTRY, depth + 1, made + 1
                stacks[tid] = depth
            elif depth:
                kind, stacks[tid] = RETURN, depth - 1
            else:
                tid = max(stacks, key=lambda tid: stacks[tid])
                continue
            records.append(
                EVENT.pack(
                    time, 2**47 - 48 * depth, 0, 0, 100, tid, kind, 0, 0, 0, depth, 0, 0, 0, 0, 0
                )
            )
            if len(records) == BATCH:
                writer.write(Batch(b"".join(records)))
                records = []
        writer.write(Batch(b"".join(records)))
        writer.finish(Losses())


if __name__ == "__main__":
    main()
