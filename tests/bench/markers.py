"""Prints what a hit of a marker costs beside a function's entry with as many values.

    PYTHONPATH=.:tests/bench python tests/bench/markers.py

A function begins with a marker, so that both probes are on the same nop. It has arguments in
registers and in memory. A marker is compared with an entry whose values are in the registers of the
first arguments, and, where some are in memory or a text, with one that reads as many there. Each
figure is the nanoseconds of processor time that a call takes more than untraced: of each run the
fifth part of the calls that took least, which other work on the machine disturbs little, and of
all runs, in turns, the median.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from reported import nanoseconds

ROUNDS = 7
CHUNKS = 1_000
IN_REGISTERS = ("--arg", "n", "--arg", "m")
SIX = (*IN_REGISTERS, *("--arg", "index", "--arg", "other", "--arg", 'reg("r8")', "--arg", "f"))
IN_MEMORY = ("--arg", "g", "--arg", "h")
ROWS: dict[str, tuple[str, tuple[str, ...], float | None]] = {
    "in the registers of the function's": ("8@%rdi 8@%rsi", IN_REGISTERS, 1.05),
    "in other registers": ("8@%rdx 8@%rcx", IN_REGISTERS, 1.05),
    "parts of registers": ("1@%dl -2@%cx", IN_REGISTERS, 1.05),
    "a constant and a number with a sign": ("4@$3 -4@%eax", IN_REGISTERS, 1.05),
    "six in another order": ("8@%r9 8@%r8 8@%rcx 8@%rdx 8@%rsi 8@%rdi", SIX, 1.05),
    "six in other registers": ("8@%rbx 8@%rbp 8@%r12 8@%r13 4@%r14d -4@%r15d", SIX, 1.05),
    "one in memory": ("8@%rdi 8@16(%rsp)", ("--arg", "n", "--arg", "h"), 1.05),
    "both in memory": ("-4@8(%rsp) 8@16(%rsp)", IN_MEMORY, 1.05),
    "one with an index": ("8@%rdi 8@-64(%rsp,%rdx,8)", ("--arg", "n", "--arg", "h"), None),
    "a text": ("8@%r8", ("--arg", "text"), 1.05),
}
"""The operands of a marker, the entry with fetches of like kind, and what the ratio of their costs
is to be at most: the one that is intended is 1, the rest is what measuring varies by."""
PROVIDERS = "provider bench { probe hit(char *text); };\n"
SOURCE = r"""
#define CLOCK CLOCK_PROCESS_CPUTIME_ID
#include "chunks.h"
__attribute__((noipa)) long traced(long n, long m, long index, long other, const char *text,
                                   long f, long g, long h)
{
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n"
                     ".4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n991: .8byte 990b, 0, 0\n"
                     ".asciz \"bench\", \"hit\", \"" OPERANDS "\"\n992: .balign 4\n.popsection");
    return n * 3 + m;
}
int main(void)
{
    long sum = 0;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        double start = now();
        for (long i = 0; i < 200; i++)
            sum += traced(i, i, 7, i, "fifteen letters", 5, 6, i);
        spent[chunk] = now() - start;
    }
    report(200);
    return sum == 42;
}
"""
Report = Callable[[str, float, float | None], None]
"""Prints a ratio by its name, with what it is to be at most."""


def show(name: str, here: Path, report: Report) -> None:
    """Print the row of markers with some operands."""
    operands, like, limit = ROWS[name]
    program = here / "hit"
    flags = ["-O2", "-g", "-fcf-protection=none", f"-DCHUNKS={CHUNKS}", f'-DOPERANDS="{operands}"']
    flags += [f"-I{Path(__file__).parent}"]
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", program, *flags], input=SOURCE, text=True, check=True
    )
    lbtrace = [sys.executable, "-m", "lbtrace", "attach", "--strict", "--force"]
    attach = [*lbtrace, "-o", here / "x.lbt", "--ring-size", "64M"]
    entry = [*attach, "--func", "traced", "--returns", "none"]
    types = ["--provider", here / "bench.d"] if "text" in like else []
    rivals: dict[str, list[object]] = {
        "untraced": [program],
        "in registers": [*entry, *IN_REGISTERS, "--", program],
        "of like kind": [*entry, *like, "--", program],
        "marker": [*attach, "--usdt", "bench:hit", *types, "--", program],
    }
    figures: dict[str, list[float]] = {rival: [] for rival in rivals}
    for _ in range(ROUNDS):
        for rival, command in rivals.items():
            figures[rival].append(nanoseconds(*command))
    untraced, entered, alike, marker = (median(figures[rival]) for rival in rivals)
    costs = f"{marker - untraced:,.0f} ns, an entry {entered - untraced:,.0f}"
    if like == IN_REGISTERS:
        alike = entered
    else:
        costs += f", with values of like kind {alike - untraced:,.0f}"
        report(f"{name}, beside registers", (marker - untraced) / (entered - untraced), None)
    print(f"  {name} ({operands}): {costs}")
    report(f"a marker, {name} / an entry", (marker - untraced) / (alike - untraced), limit)


def print_ratio(name: str, value: float, limit: float | None) -> None:
    """A `Report`."""
    bound = f" (at most {limit})" if limit else ""
    print(f"  {name}: {value:.3f}{bound}", flush=True)


def main(report: Report = print_ratio) -> None:
    """Print all rows."""
    print("a marker's hit beside a function's entry with as many values:")
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "bench.d").write_text(PROVIDERS)
        for name in ROWS:
            show(name, here, report)


if __name__ == "__main__":
    main()
