"""What planning costs: CPU time and anonymous memory of `--dry-run`, with an empty cache and the
files in the page cache, and CPU time when the same is planned again.

    PYTHONPATH=. python tests/bench/planning.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from glob import glob
from pathlib import Path
from statistics import median

import large_program

ROOT = Path(__file__).resolve().parents[2]
PLANS = (
    (str(ROOT / "build/out/programs/fib"), "fib"),
    ("libc.so.6", "malloc"),
    ("hugo", "main.main"),
    ("/usr/lib/jvm/*/lib/server/libjvm.so", "JVM_GC"),
    ("/usr/lib/*/libLLVM-14.so.1", "LLVMContextCreate"),
    ("node", "uv_fs_open"),
    ("redis-server", "call"),
    ("/usr/lib/postgresql/*/bin/postgres", "ExecInitNode"),
    ("/usr/lib/chromium/chromium", "ChromeMain"),
    ("/usr/lib/*/libLLVM-14.so.1", "/^_ZN?K?4llvm1/"),
    ("/usr/lib/*/libLLVM-14.so.1", "*"),
)
"""Binaries, by name, path or pattern, and what is planned of them; the last two are 11,000
functions, and 34,000."""

FEW = 5
EVERY = 0.001


def main() -> None:
    """Print a line for a program with 1 GB of debug information, and for each of `PLANS` whose
    binary is there."""
    print(
        "planning for the first time: CPU s (at most 0.15), anonymous MB (at most 40); again: CPU s"
    )
    large = str(large_program.make(ROOT / "build/out/bench/large"))
    for pattern, function in ((large, large_program.FUNCTION), *PLANS):
        found = sorted(glob(pattern)) if "/" in pattern else [pattern]
        rounds = 1 if function[0] in "/*" else FEW
        if found:
            runs = [plan(found[0], function) for _ in range(rounds)]
            spent, held, again = (median(column) for column in zip(*runs, strict=True))
            name = f"{Path(found[0]).name}, {function}"
            print(f"  {name}: {spent:.2f} s, {held / 1024:.0f} MB; {again:.2f} s", flush=True)


def plan(binary: str, function: str) -> tuple[float, int, float]:
    """Plan twice; return the CPU time in s and the peak of RssAnon in kB, and the second CPU
    time."""
    words = ["attach", "--dry-run", "--quiet", "--force", "--binary", binary, "--func", function]
    with tempfile.TemporaryDirectory() as cache:
        first, held = _run(words, cache)
        return first, held, _run(words, cache)[0]


def _run(words: list[str], cache: str) -> tuple[float, int]:
    before = _spent()
    process = subprocess.Popen(
        [sys.executable, "-m", "lbtrace", *words],
        env=os.environ | {"XDG_CACHE_HOME": cache},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    most = 0
    while process.poll() is None:
        most = max(most, _anonymous(process.pid))
        time.sleep(EVERY)
    return _spent() - before, most


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


if __name__ == "__main__":
    main()
