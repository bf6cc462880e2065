"""Prints how long it takes to attach to ten thousand functions, and to detach.

    python tests/bench/attaching.py

Attaching begins when the plan is made. Detaching is from Ctrl-C to the end of lbtrace. bpftrace is
given 11 functions only: versions that attach each alone would take a quarter of an hour to detach
all. Its start has its compiling in it. Medians of runs in turns.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import bpftraces

from lbtrace.model import Target
from lbtrace.plan import Selection, make_plan
from lbtrace.session.session import Session

ROUNDS = 5
FUNCTIONS = 10_000


def compile_program(here: Path) -> Path:
    """A program of ten thousand functions."""
    functions = "".join(
        f"__attribute__((noinline)) int f{n}(int a) {{ return a + 1; }}\n" for n in range(FUNCTIONS)
    )
    source = functions + "int main(void) { return 0; }\n"
    program = here / "many"
    command = ["gcc", "-O1", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=source, text=True, check=True)
    return program


def run(command: list[str], ready: str) -> tuple[float, float]:
    """Seconds until a tracer prints ``ready``, and from Ctrl-C to its end."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    for line in process.stdout:
        if ready in line:
            break
    attached = time.perf_counter()
    time.sleep(0.5)
    stopped = time.perf_counter()
    process.send_signal(signal.SIGINT)
    process.communicate()
    return attached - start, time.perf_counter() - stopped


def main() -> None:
    """Print the medians."""
    with tempfile.TemporaryDirectory() as directory:
        program = compile_program(Path(directory))
        plan = make_plan(str(program), Selection(("f*",)))
        lbtrace = [sys.executable, "-m", "lbtrace", "attach", "--binary", str(program)]
        rivals = {"lbtrace": ([*lbtrace, "--func", "f*"], "Ctrl-C ends")}
        script = f'BEGIN {{ printf("ready\\n"); }} uprobe:{program}:f123* {{ @ = count(); }}'
        for name, path in bpftraces.find().items():
            rivals[f"{name}, 11 of them"] = ([path, "-e", script], "ready")
        attaching: list[float] = []
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in rivals}
        for _ in range(ROUNDS):
            start = time.perf_counter()
            with Session(plan, Target()):
                attaching.append(time.perf_counter() - start)
            for name, rival in rivals.items():
                figures[name].append(run(*rival))
    print(f"{FUNCTIONS:,} functions: {median(attaching):.2f} s to attach (at most 0.15)")
    for name, times in figures.items():
        started, detached = (median(each) for each in zip(*times, strict=True))
        print(f"  {name}: {started:.2f} s from its start, {detached:.2f} s from Ctrl-C to its end")


if __name__ == "__main__":
    main()
