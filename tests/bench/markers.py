"""Prints what a hit of a marker costs beside a function's entry with the same arguments.

    python tests/bench/markers.py

A function begins with a marker, so that both probes are on the same nop. Its arguments are in the
registers of the function's, or one is in memory, or there are other registers. Each figure is the
nanoseconds of processor time that a call takes more than untraced, the median of runs in turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from entries import nanoseconds

ROUNDS = 7
CALLS = 100_000
OPERANDS = {
    "in the registers of the function's": "8@%rdi 8@%rsi",
    "in other registers": "8@%rdx 8@%rcx",
    "one in memory": "8@%rdi 8@-8(%rsp)",
    "one with an index": "8@%rdi 8@-64(%rsp,%rdx,8)",
}
SOURCE = r"""
#include <stdio.h>
#include <time.h>
__attribute__((noipa)) long traced(long n, long m, long index)
{
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n"
                     ".4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n991: .8byte 990b, 0, 0\n"
                     ".asciz \"bench\", \"hit\", \"" OPERANDS "\"\n992: .balign 4\n.popsection");
    return n * 3 + m;
}
int main(void)
{
    struct timespec from, to;
    long sum = 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (long i = 0; i < CALLS; i++)
        sum += traced(i, i, 7);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double spent = (to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec;
    fprintf(stderr, "\n%.1f\n", spent / CALLS);
    return sum == 42;
}
"""


def show(name: str, operands: str, here: Path) -> None:
    """Print the row of markers with such operands."""
    program = here / "hit"
    flags = ["-O2", "-g", "-fcf-protection=none", f"-DCALLS={CALLS}", f'-DOPERANDS="{operands}"']
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", program, *flags], input=SOURCE, text=True, check=True
    )
    attach = [
        sys.executable,
        "-m",
        "lbtrace",
        "attach",
        "--strict",
        "--force",
        "-o",
        here / "x.lbt",
    ]
    rivals: dict[str, list[object]] = {
        "untraced": [program],
        "entry": [*attach, "--func", "traced", "--args", "2", "--returns", "none", "--", program],
        "marker": [*attach, "--usdt", "bench:hit", "--", program],
    }
    figures: dict[str, list[float]] = {rival: [] for rival in rivals}
    for _ in range(ROUNDS):
        for rival, command in rivals.items():
            figures[rival].append(nanoseconds(*command))
    untraced, entry, marker = (median(figures[rival]) for rival in rivals)
    costs = f"{marker - untraced:,.0f} ns, an entry {entry - untraced:,.0f} ns"
    print(f"  {name}: {costs}, ratio {(marker - untraced) / (entry - untraced):.2f}", flush=True)


def main() -> None:
    """Print all rows."""
    print("a marker's hit beside a function's entry, two arguments each:")
    with tempfile.TemporaryDirectory() as directory:
        for name, operands in OPERANDS.items():
            show(name, operands, Path(directory))


if __name__ == "__main__":
    main()
