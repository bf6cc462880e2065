"""Compiles the programs that the tests trace.

    python tests/programs/build.py DIRECTORY [COMPILER]

A machine that has no compiler gets them ready-made: the tests take them from
the directory that LBTRACE_PROGRAMS names.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

PROGRAMS = {
    "fib": "fib.c -O1 -g",
    "fib-cet": "fib.c -O2 -g -fcf-protection -fno-optimize-sibling-calls",
    "fib-bare": "fib.c -O1",
    "fib-static": "fib.c -O1 -g -static",
    "fib-nopie": "fib.c -O1 -g -fno-pie -no-pie",
    "deep": "deep.c -O1 -g -fno-optimize-sibling-calls",
    "truth": "truth.c -O1 -g -pthread",
    "truth-O0": "truth.c -O0 -g -pthread",
    "truth-O2": "truth.c -O2 -g -pthread -fcf-protection",
    "hot": "hot.c -O2 -g -fcf-protection",
    "loop": "loop.c -O2 -g",
    "values": "values.c -O1 -g",
}
"""What each is compiled from, and how."""


def build(into: Path, compiler: str = "gcc") -> None:
    """Compile all programs into ``into``, those whose source is newer than they are."""
    into.mkdir(parents=True, exist_ok=True)
    for name, words in PROGRAMS.items():
        source, *flags = words.split()
        made = into / name
        newest = max((HERE / source).stat().st_mtime, Path(__file__).stat().st_mtime)
        if made.is_file() and made.stat().st_mtime > newest:
            continue
        command = [*shlex.split(compiler), *flags, str(HERE / source), "-o", str(made)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])
