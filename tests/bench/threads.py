"""What becomes of the calls of eight threads that make them as fast as they can.

    PYTHONPATH=.:tests/bench python tests/bench/threads.py

Each call passes another string. Printed are the processor time that an entry takes of the program,
beside an empty probe, and of the reader, which says how many processors one ring serves; and the
share of calls that is lost. Medians of runs in turns.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import empty
from markers import Report, print_ratio

from lbtrace.bpf.features import probe
from lbtrace.model import Plan, Target
from lbtrace.model.wire import EVENT_SIZE
from lbtrace.plan import Selection, make_plan
from lbtrace.session.backlog import BATCH_EVENTS
from lbtrace.session.options import Options
from lbtrace.session.session import Session

ROUNDS = 5
THREADS = 8
SECONDS = 0.25
LARGE_RING = 512 << 20
"""Nothing is lost, though it is read between the runs only."""

SOURCE = Path(__file__).parents[1] / "programs/pace.c"
LBTRACE = [sys.executable, "-m", "lbtrace", "attach", "--func", "named", "--returns", "none"]


def main(report: Report = print_ratio) -> None:
    empty.compile_object()
    with tempfile.TemporaryDirectory() as directory:
        pace = Path(directory) / "pace"
        subprocess.run(["gcc", "-O0", "-g", "-pthread", SOURCE, "-o", pace], check=True)
        show_costs(pace, report)
        show_losses(pace, Path(directory) / "output", report)


def show_costs(pace: Path, report: Report) -> None:
    plan = make_plan(str(pace), Selection(("named",), returns="none"))
    mode = "multi" if probe().multi else "plain"
    bare, traced, read = [], [], []
    for _ in range(ROUNDS):
        with empty.attached(mode, plan):  # type: ignore[arg-type]
            bare.append(cost_of_call(pace))
        ours, reading = cost_of_entry(pace, plan)
        traced.append(ours)
        read.append(reading)
    none, ours, reading = median(bare), median(traced), median(read)
    print(f"an entry with a string, {THREADS} busy threads, ns of processor time:")
    print(f"  empty probe {none:,.0f}, lbtrace {ours:,.0f}, its reader {reading:,.0f}")
    report("an entry with a string / empty probe", ours / none, None)
    report("to read an event / to make it", reading / ours, 0.25)


def cost_of_call(pace: Path) -> float:
    """The processor time of a call, with what is around it, ns."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [str(pace), "named", "0", str(THREADS), str(SECONDS)]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1e9 / (float(done.stderr) * SECONDS)


def cost_of_entry(pace: Path, plan: Plan) -> tuple[float, float]:
    """The same where entries are recorded, and of reading one."""
    with Session(plan, Target(), Options(ring_size=LARGE_RING)) as session:
        cost, count = cost_of_call(pace), 0
        start = time.thread_time()
        while batch := session._reader.drain(BATCH_EVENTS):
            count += len(batch.events) // EVENT_SIZE
        spent = time.thread_time() - start
        assert count
        assert not session.losses().total
    return cost, spent * 1e9 / count


def show_losses(pace: Path, output: Path, report: Report) -> None:
    print(f"calls of {THREADS} busy threads that are lost, of all (entries with a string):")
    for format in ("lbt", "tree"):
        for longest in (64, 1000):
            shares = [lost(pace, output, format, longest) for _ in range(3)]
            report(f"{format}, --strings {longest}", median(shares), 0.1)


def lost(pace: Path, output: Path, format: str, longest: int) -> float:
    """The share of the calls that a trace counts as lost."""
    words = [*LBTRACE, "--format", format, "-o", str(output), "--force", "--strings", str(longest)]
    command = ["--", str(pace), "named", "0", str(THREADS), "1"]
    done = subprocess.run([*words, *command], stderr=subprocess.PIPE, text=True, check=True)
    counts = r"lbtrace: ([\d,]+) calls? .*?, (?:nothing|([\d,]+) events?) lost"
    found = re.search(counts, done.stderr)
    assert found, done.stderr
    shown, missing = (int((each or "0").replace(",", "")) for each in found.groups())
    assert shown + missing == int(next(filter(str.isdigit, done.stderr.splitlines())))
    return missing / (shown + missing)


if __name__ == "__main__":
    main()
