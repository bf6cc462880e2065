"""Prints what an entry costs by the flags that a function was compiled with.

    python tests/bench/entries.py

The same function is compiled by gcc with each of `FLAGS`, by clang with each of `CLANG`. A row has
the instruction under lbtrace's probe, and the nanoseconds of processor time that a call takes more
than untraced: when lbtrace writes its entry to a capture, and when bpftrace counts it. Medians of
runs in turns.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from lbtrace.plan import Selection, make_plan

ROUNDS = 5
CALLS = 100_000
CHEAP = "-O2 -fcf-protection=none"
FRAMES = "-fno-omit-frame-pointer -mno-omit-leaf-frame-pointer"
FLAGS = (
    f"{CHEAP} -fpatchable-function-entry=1",
    f"{CHEAP} -fpatchable-function-entry=5",
    "-O2 -fcf-protection=full -fpatchable-function-entry=1",
    "-O0 -fcf-protection=full",
    CHEAP,
    "-O2 -fcf-protection=full",
)
CLANG = (
    f"-O2 -fcf-protection=none {FRAMES}",
    f"-O2 -fcf-protection=full {FRAMES}",
)
SOURCE = """
#include <stdio.h>
#include <time.h>
#ifdef __clang__
#define NOIPA __attribute__((noinline))
#define UNTRACED __attribute__((patchable_function_entry(0, 0)))
#else
#define NOIPA __attribute__((noipa))
#define UNTRACED __attribute__((no_instrument_function, patchable_function_entry(0, 0)))
#endif
NOIPA long traced(long n) { return n * 3 + 1; }
UNTRACED int main(void)
{
    struct timespec from, to;
    long sum = 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (long i = 0; i < CALLS; i++)
        sum += traced(i);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double spent = (to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec;
    fprintf(stderr, "\\n%.1f\\n", spent / CALLS);
    return sum == 42;
}
"""


def nanoseconds(*words: object) -> float:
    """What the program that ``words`` run says a call took."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        if line.replace(".", "", 1).isdigit():
            return float(line)
    raise SystemExit(f"{words}: {done.stdout}{done.stderr}")


def show(flags: str, here: Path, compiler: str) -> None:
    """Print the row of some flags."""
    program = here / "entry"
    compile = [compiler, "-x", "c", "-", f"-DCALLS={CALLS}", "-o", str(program), *flags.split()]
    subprocess.run(compile, input=SOURCE, text=True, check=True)
    plan = make_plan(str(program), Selection(("traced",), returns="none"))
    (probe,) = plan.probes
    words = ["attach", "--func", "traced", "--returns", "none", "--strict", "--force"]
    ours = [sys.executable, "-m", "lbtrace", *words, "-o", here / "x.lbt", "--", program]
    rivals = {"untraced": [program], "lbtrace": ours}
    if shutil.which("bpftrace"):
        script = f"uprobe:{program}:traced {{ @ = count(); }}"
        rivals["bpftrace"] = ["bpftrace", "-e", script, "-c", program]
    figures: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, command in rivals.items():
            figures[name].append(nanoseconds(*command))
    costs = {name: median(values) for name, values in figures.items()}
    untraced = costs.pop("untraced")
    row = ", ".join(f"{name} {cost - untraced:,.0f}" for name, cost in costs.items())
    at = probe.site.address - plan.functions[0].address
    print(f"  {compiler} {flags}: {probe.site.displaced} at +{at}: {row}", flush=True)


def main() -> None:
    """Print all rows."""
    print("an entry by the flags of compilers, ns:")
    with tempfile.TemporaryDirectory() as directory:
        for flags in FLAGS:
            show(flags, Path(os.path.realpath(directory)), "gcc")
        for flags in CLANG if shutil.which("clang") else ():
            show(flags, Path(os.path.realpath(directory)), "clang")


if __name__ == "__main__":
    main()
