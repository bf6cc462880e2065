"""Prints what a live trace of 300,000 calls a second loses and takes, and how soon Ctrl-C ends one.

    PYTHONPATH=. python tests/bench/live.py

A program (pace.c) makes the calls at an even pace: with an integer each way, or with a string and a
struct, others each time. The output is a file. Of a trace is shown what it lost, the processor time
that the tracer takes in a second, and the most memory. bpftrace prints a line at each entry and
each return. Before Ctrl-C, eight threads call as fast as they can.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import bpftraces

SOURCE = Path(__file__).parents[1] / "programs/pace.c"
RATE = 300_000
SECONDS = 2
THREADS = (1, 8)
FORMATS = ("tree", "jsonl", "racket", "speedscope", "lbt")
ROUNDS = 5
PATIENCE = 0.5
"""Seconds after the last call in which a tracer may still write."""

LBTRACE = [sys.executable, "-m", "lbtrace", "attach", "--depth", "1"]
LOST = re.compile(r"(?:Lost )?([\d,]+) events(?: lost)?", re.IGNORECASE)
FUNCTIONS = {"number": "(%d)\\n", "named": "(%s) {id=%d, label=%s}\\n"}


class Trace(NamedTuple):
    """How a trace went: calls made a second, events lost, processor seconds a second, MB."""

    made: int
    lost: int
    spent: float
    memory: float

    def __str__(self) -> str:
        lost = f"{self.lost:,} events lost" if self.lost else "nothing lost"
        return f"{self.made:,} calls/s, {lost}, {self.spent:.2f} s a second, {self.memory:.0f} MB"


class Tracer:
    """A tracer at work, whose output is the file ``output``."""

    def __init__(self, command: Sequence[str], ready: str, output: Path) -> None:
        self._output = output
        self._messages = output.with_suffix(".messages")  # a pipe would fill, and stop the tracer
        with open(output, "wb") as stream, open(self._messages, "wb") as messages:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=messages
            )
        while not self._is_ready(ready) and self._process.poll() is None:
            time.sleep(0.01)
        self._before = self._spent()

    def _is_ready(self, ready: str) -> bool:
        with open(self._output, errors="replace") as stream:
            return ready in stream.read(4096) or ready in self._messages.read_text()

    def _spent(self) -> float:
        """Processor seconds until now."""
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def measure(self, seconds: float) -> tuple[float, float]:
        """Return processor seconds a second since it was ready, and the most memory in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
        return (self._spent() - self._before) / seconds, peak / 1024

    def interrupt(self) -> float:
        """Press Ctrl-C; return the seconds until it has ended."""
        start = time.perf_counter()
        for number in (*[signal.SIGINT] * 9, signal.SIGKILL):
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):  # bpftrace 0.17 misses some
                self._process.wait(1)
                break
        self._process.wait()
        return time.perf_counter() - start

    def lost(self) -> int:
        """How many events it says it has lost."""
        reported = self._messages.read_text()
        if "lbtrace" not in reported:
            reported += "".join(re.findall("Lost [0-9]+ events", self._output.read_text()))
        return sum(int(number.replace(",", "")) for number in LOST.findall(reported))


def trace(tracer: Tracer, pace: Path, function: str, threads: int) -> Trace:
    """Trace a program at its pace."""
    command = [str(pace), function, str(RATE), str(threads), str(SECONDS)]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    time.sleep(PATIENCE)
    spent, memory = tracer.measure(SECONDS)
    tracer.interrupt()
    return Trace(int(made), tracer.lost(), spent, memory)


def start_lbtrace(pace: Path, function: str, format: str, output: Path) -> Tracer:
    """Trace all calls of a function."""
    words = ["--binary", str(pace), "--func", function, "--format", format]
    return Tracer([*LBTRACE, *words], "Ctrl-C ends", output)


def start_bpftrace(bpftrace: str, pace: Path, function: str, output: Path) -> Tracer:
    """Print a line at each entry and return of a function."""
    values = "arg0"
    if function == "named":
        values = "str(arg0), *(uint32 *)arg1, str(*(uint64 *)(arg1 + 16))"
    script = f"""
        BEGIN {{ printf("ready\\n"); }}
        uprobe:{pace}:{function} {{ printf("%d {function}{FUNCTIONS[function]}", tid, {values}); }}
        uretprobe:{pace}:{function} {{ printf("%d = %d\\n", tid, retval); }}"""
    return Tracer([bpftrace, "-e", script], "ready", output)


def show_rates(pace: Path, output: Path) -> None:
    """Print how each format keeps up."""
    print(f"live, {RATE:,} calls a second to a file:")
    for function in FUNCTIONS:
        for threads in THREADS:
            rivals = dict.fromkeys(FORMATS, start_lbtrace)
            for name in rivals:
                tracer = start_lbtrace(pace, function, name, output)
                went = trace(tracer, pace, function, threads)
                print(f"  {function}, {threads} threads, {name}: {went}", flush=True)
            for name, path in bpftraces.find().items():
                tracer = start_bpftrace(path, pace, function, output)
                went = trace(tracer, pace, function, threads)
                print(f"  {function}, {threads} threads, {name}: {went}", flush=True)


def show_ends(pace: Path, output: Path) -> None:
    """Print how long Ctrl-C takes while much waits."""
    rivals: dict[str, Callable[[], Tracer]] = {
        f"lbtrace, {name}": partial(start_lbtrace, pace, "named", name, output)
        for name in ("tree", "lbt")
    }
    for name, path in bpftraces.find().items():
        rivals[name] = partial(start_bpftrace, path, pace, "named", output)
    figures: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, start in rivals.items():
            tracer = start()
            with subprocess.Popen(
                [str(pace), "named", "0", "8", "60"], stderr=subprocess.DEVNULL
            ) as busy:
                time.sleep(1)
                figures[name].append(tracer.interrupt())
                busy.kill()
    print("from Ctrl-C to the end, eight busy threads, s (at most 0.5):")
    for name, times in figures.items():
        print(f"  {name}: {median(times):.2f}, at most {max(times):.2f}", flush=True)


def main() -> None:
    """Print the measurements."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        pace = here / "pace"
        # without optimisation, functions begin with a push, which kernels emulate
        command = ["gcc", "-O0", "-g", "-pthread", str(SOURCE), "-o", str(pace)]
        subprocess.run(command, check=True)
        show_rates(pace, here / "output")
        show_ends(pace, here / "output")


if __name__ == "__main__":
    main()
