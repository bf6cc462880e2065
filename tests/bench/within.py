"""What a call costs that is not below those that are traced, beside an empty probe on the same
function.

    PYTHONPATH=. python tests/bench/within.py

Nanoseconds a call, medians of runs in turns. The function is called outside of `--within` only; in
some runs another thread is inside at the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import empty
from entries import nanoseconds

from lbtrace.bpf.features import probe
from lbtrace.plan import Selection, make_plan

ROUNDS = 9
CALLS = 300_000
SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
__attribute__((noipa)) long leaf(long n) { __asm__ volatile("" ::: "memory"); return n + 1; }
__attribute__((noipa)) long called(long n) { long first = leaf(n); return leaf(first) + first * n; }
__attribute__((noipa)) long outer(long n) { sleep(1000); return called(n); }
static void *run(void *n) { return (void *)outer((long)n); }
int main(int argc, char **argv)
{
    struct timespec from, to;
    pthread_t thread;
    long sum = 0;
    if (argc > 1) {
        pthread_create(&thread, NULL, run, NULL);
        usleep(50000);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (long i = 0; i < CALLS; i++)
        sum += called(i);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    fprintf(stderr, "\\n%.1f\\n",
            ((to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec) / CALLS);
    _exit(sum == 42);
}
"""


def main(report: Callable[[str, float, float | None], None] | None = None) -> None:
    empty.compile_object()
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        program = here / "program"
        (here / "program.c").write_text(SOURCE)
        command = ["gcc", "-O2", "-pthread", f"-DCALLS={CALLS}", here / "program.c", "-o", program]
        subprocess.run(command, check=True)
        plan = make_plan(str(program), Selection(("called",), returns="none"))
        mode = "multi" if probe().multi else "plain"
        words = [sys.executable, "-m", "lbtrace", "attach", "--within", "outer", "--func", "called"]
        traced = [*words, "-o", here / "capture.lbt", "--force", "--quiet", "--"]

        def bare() -> float:
            with empty.attached(mode, plan):  # type: ignore[arg-type]
                return nanoseconds(program)

        rivals = {
            "untraced": lambda: nanoseconds(program),
            "empty probe": bare,
            "outside": lambda: nanoseconds(*traced, program),
            "outside, a thread inside": lambda: nanoseconds(*traced, program, "inside"),
        }
        figures: dict[str, list[float]] = {name: [] for name in rivals}
        for _ in range(ROUNDS):
            for name, run in rivals.items():
                figures[name].append(run())
        costs = {name: median(values) for name, values in figures.items()}
        print(f"a call outside of --within ({mode}), ns of processor time:")
        print("  " + ", ".join(f"{name} {cost:,.0f}" for name, cost in costs.items()))
        for name in ("outside", "outside, a thread inside"):
            value = costs[name] / costs["empty probe"]
            if report:
                report(f"a call {name} of --within / empty probe", value, 1.2)
            else:
                print(f"  {name} / empty probe: {value:.3f} (at most 1.2)", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    main()
