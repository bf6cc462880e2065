"""What functions cost beside a marker that is waited for, because no file has it yet.

    PYTHONPATH=.:tests/bench python tests/bench/waiting.py

Nanoseconds of processor time that a call, traced with its return, takes more than untraced: of each
run the fifth part of the calls that took least, of all runs, in turns, the median.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from entries import nanoseconds
from markers import CHUNKS, SOURCE, Report, print_ratio

LOADS = """
#include <dlfcn.h>
void *load(const char *path) { return dlopen(path, RTLD_NOW); }
"""
"""A program that could not load a file waits for none."""
ROUNDS = 7
ROWS: dict[str, tuple[str, ...]] = {
    "two integers": ("--args", "2"),
    "eight values, one of them a text": (),
}
"""Without ``--arg``, which is about the marker where one is asked for."""


def main(report: Report = print_ratio) -> None:
    """Print all rows."""
    print("a function's call and return beside a marker that is waited for:")
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        program = here / "called"
        flags = ["-O2", "-g", "-fcf-protection=none", f"-DCHUNKS={CHUNKS}", '-DOPERANDS=""']
        subprocess.run(
            ["gcc", "-x", "c", "-", "-o", program, *flags],
            input=SOURCE + LOADS,
            text=True,
            check=True,
        )
        lbtrace = [sys.executable, "-m", "lbtrace", "attach", "--strict", "--force"]
        attach = [*lbtrace, "-o", here / "x.lbt", "--ring-size", "64M", "--func", "traced"]
        for name, values in ROWS.items():
            rivals: dict[str, list[object]] = {
                "untraced": [program],
                "alone": [*attach, *values, "--", program],
                "beside": [*attach, *values, "--usdt", "later:hit", "--", program],
            }
            figures: dict[str, list[float]] = {rival: [] for rival in rivals}
            for _ in range(ROUNDS):
                for rival, command in rivals.items():
                    figures[rival].append(nanoseconds(*command))
            untraced, alone, beside = (median(figures[rival]) for rival in rivals)
            print(f"  {name}: {beside - untraced:,.0f} ns, alone {alone - untraced:,.0f}")
            ratio = (beside - untraced) / (alone - untraced)
            report(f"a call, {name}, beside a waiting marker / alone", ratio, 1.05)


if __name__ == "__main__":
    main()
