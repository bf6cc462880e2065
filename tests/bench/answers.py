"""Prints what a call costs that the kernel counts or times, beside an empty probe or an empty pair
at the same places, and what a stack of 30 frames does.

    PYTHONPATH=.:tests/bench python tests/bench/answers.py

The function is compiled without frame pointers, and is called below 28 others. Each figure is the
nanoseconds of processor time that a call takes more than untraced: of each run the fifth part of
the calls that took least, which other work on the machine disturbs little, and of all runs, in
turns, the median.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import bpftraces
import empty
from markers import Report, print_ratio
from reported import nanoseconds

from lbtrace.bpf.features import probe
from lbtrace.plan import Selection, make_plan

ROUNDS = 7
HERE = Path(__file__).parent
SOURCE = r"""
#define CHUNKS 600
#define CLOCK CLOCK_PROCESS_CPUTIME_ID
#include "chunks.h"
__attribute__((noipa)) long traced(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3 + 1;
}
__attribute__((noipa)) long measure(long sum)
{
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		double start = now();

		for (long i = 0; i < 100; i++)
			sum += traced(i & 63);
		spent[chunk] = now() - start;
	}
	report(100);
	return sum;
}
__attribute__((noipa)) long below(long depth)
{
	long room[4];

	__asm__ volatile("" ::"r"(room) : "memory");
	return (depth > 2 ? below(depth - 1) : measure(depth)) + room[0] % 2;
}
int main(void)
{
	return below(FRAMES - 5) == 42;
}
"""
FRAMES = 30
"""Of the stack: traced, measure, below, main, and three of the C library's start."""
MOST = 4_000
"""Nanoseconds of a stack."""


def compile_program(program: Path) -> None:
    """A nop is at the function's entry, where kernels emulate it."""
    flags = ["-O2", "-g", "-w", "-fcf-protection=none", "-fpatchable-function-entry=1"]
    flags += ["-fomit-frame-pointer", "-fno-optimize-sibling-calls", f"-DFRAMES={FRAMES}"]
    flags += [f"-I{HERE}"]
    command = ["gcc", "-x", "c", "-", "-o", program, *flags]
    subprocess.run(command, input=SOURCE, text=True, check=True)


def main(report: Report = print_ratio) -> None:
    """Print all rows."""
    empty.compile_object()
    print("a call that the kernel counts or times:")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "program"
        compile_program(program)
        entry = make_plan(str(program), Selection(("traced",), returns="none"))
        pair = make_plan(str(program), Selection(("traced",)))
        mode = "multi" if probe().multi else "plain"

        def bare(plan: object) -> Callable[[], float]:
            def run() -> float:
                with empty.attached(mode, plan):  # type: ignore[arg-type]
                    return nanoseconds(program)

            return run

        def ours(*words: str) -> Callable[[], float]:
            command = [sys.executable, "-m", "lbtrace", *words, "--func", "traced", "--", program]
            return lambda: nanoseconds(*command)

        rivals = {
            "": lambda: nanoseconds(program),
            "empty probe": bare(entry),
            "empty pair": bare(pair),
            "counted": ours("count"),
            "counted by an argument": ours("count", "--by", "n"),
            "timed": ours("latency"),
            "stack": ours("stacks"),
        }
        for name, path in bpftraces.find().items():
            script = f"uprobe:{program}:traced {{ @ = count(); }}"
            rivals[f"{name}, counted"] = lambda path=path, script=script: nanoseconds(  # type: ignore[misc]
                path, "-e", script, "-c", program
            )
        figures: dict[str, list[float]] = {rival: [] for rival in rivals}
        for _ in range(ROUNDS):
            for name, run in rivals.items():
                figures[name].append(run())
    untraced = median(figures.pop(""))
    costs = {name: median(values) - untraced for name, values in figures.items()}
    print(f"  ({mode}) " + ", ".join(f"{name} {cost:,.0f}" for name, cost in costs.items()))
    report("a counted call / an empty probe", costs["counted"] / costs["empty probe"], 1.15)
    report(
        "by an argument / an empty probe",
        costs["counted by an argument"] / costs["empty probe"],
        None,
    )
    report("a timed call / an empty pair", costs["timed"] / costs["empty pair"], 1.2)
    took = costs["stack"] - costs["counted"]
    print(f"  a stack of {FRAMES} frames: {took:,.0f} ns")
    report(f"a stack, of {MOST:,} ns", took / MOST, 1)


if __name__ == "__main__":
    main()
