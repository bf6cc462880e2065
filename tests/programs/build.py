"""Compiles the programs that the tests trace.

    python tests/programs/build.py DIRECTORY [COMPILER]

A machine that has no compiler gets them ready-made: the tests take them from
the directory that LBTRACE_PROGRAMS names. COMPILER may be one for another
machine (aarch64-linux-gnu-gcc).
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent

SDT = "-idirafter /usr/include/x86_64-linux-gnu"
"""Where Debian keeps <sys/sdt.h>, which is the same for all machines."""

PROGRAMS = {
    "fib": "fib.c -O1 -g",
    "fib-bare": "fib.c -O1",
    "fib-static": "fib.c -O1 -g -static",
    "daemon": "daemon.c -O1",
    "paths": "paths.c -O2 -g -pthread -fomit-frame-pointer -fno-optimize-sibling-calls",
    "paths-pointers": "paths.c -O1 -g -pthread -fno-omit-frame-pointer -fno-optimize-sibling-calls",
    "deep": "deep.c -O1 -g -fno-optimize-sibling-calls",
    "depth": "depth.c -O1 -g -fno-optimize-sibling-calls",
    "save": f"save.c -O1 -g {SDT}",
    "trace": "trace.c -O0 -g",
    "variables": "variables.c -O0 -g -w",
    "truth": "truth.c -O1 -g -pthread",
    "truth-O0": "truth.c -O0 -g -pthread",
    "truth-O2": "truth.c -O2 -g -pthread -fcf-protection",
    "hot": "hot.c -O2 -g -fcf-protection",
    "absent": "absent.c -O1 -w -static",
    "loop": "loop.c -O2 -g",
    "workers": f"workers.c -O1 -g {SDT}",
    "nested": "nested.c -O1 -g -pthread",
    "crew": "crew.c -O1 -g -pthread",
    "leaderless": "leaderless.c -O1 -g -pthread",
    "exact-O0": "exact.c -O0 -g -pthread",
    "exact-O2": "exact.c -O2 -g -pthread",
    "exact-harmless": "exact.c -O2 -g -pthread -DHARMLESS",
    "exact-cet": "exact.c -O2 -g -pthread -fcf-protection",
    "exact-lto": "exact.c -O2 -g -pthread -flto",
    "exact-static-pie": "exact.c -O2 -g -pthread -static-pie",
    "exact-stripped": "exact.c -O2 -pthread -rdynamic -s",
    "exact++-O0": "exact.cc -std=c++20 -O0 -g",
    "exact++-O2": "exact.cc -std=c++20 -O2 -g",
    "exact++-cet": "exact.cc -std=c++20 -O2 -g -fcf-protection",
    "exact++-static": "exact.cc -std=c++20 -O2 -g -static",
    "exact++-stripped": "exact.cc -std=c++20 -O2 -rdynamic -s",
    "jumps": "jumps.c -O1 -g -Wno-unused-function",
    "fibers": "fibers.c -O2 -g -Wno-unused-function",
    "values": "values.c -O1 -g",
    "strings": "strings.c -O1 -g",
    "thrower": "thrower.cc -O1",
    "relay-first": "relay.c -O1 -g -pthread -DSELF_NAME=first",
    "relay-second": "relay.c -O1 -g -pthread -DSELF_NAME=second",
    "cpus": "cpus.c -O1 -g",
    "pace": "pace.c -O0 -g -pthread",
    "markers-O0": f"markers.c -O0 {SDT}",
    "markers-O2": f"markers.c -O2 -fno-section-anchors {SDT}",
    "tail": "tail.c -O2 -g",
    "tails": "tails.c -O2 -g",
    "within-O0": "within.cc -O0 -g -pthread",
    "within-O2": "within.cc -O2 -g -pthread -fno-optimize-sibling-calls",
    "forking": "forking.c -O1 -g",
    "crowd": "crowd.c -O1 -g",
    "forks-O0": "forks.cc -O0 -g -pthread",
    "forks-O2": "forks.cc -O2 -g -pthread -fno-optimize-sibling-calls",
    "forks-harmless": "forks.cc -O2 -g -pthread -fno-exceptions -DHARMLESS",
}
"""What each is compiled from, and how."""

CLANG = {
    "exact-clang-O2": "exact.c -O2 -g -pthread",
    "exact-clang-Oz": "exact.c -Oz -g -pthread",
    "exact++-clang-O2": "exact.cc -std=c++20 -O2 -g",
    "jumps-clang": "jumps.c -O2 -g -Wno-unused-function -Wno-shift-negative-value",
}
"""What clang compiles besides, where the programs are for this machine."""

CXX = {"gcc": "g++", "clang": "clang++", "cc": "c++"}
"""The C++ compiler beside a C compiler."""


PROTECTION = {"aarch64": "-mbranch-protection=standard"}
"""What ``-fcf-protection`` is on other machines: landing pads, and signed return addresses."""


def build(into: Path, compiler: str = "gcc", names: Collection[str] | None = None) -> None:
    """Compile all programs, or those with ``names``, into ``into``, where their source is newer
    than they are."""
    into.mkdir(parents=True, exist_ok=True)
    with (into / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes run tests at once
        _compile(into, compiler, names)


def _compile(into: Path, compiler: str, names: Collection[str] | None) -> None:
    asked = [*shlex.split(compiler), "-dumpmachine"]
    reported = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    protection = PROTECTION.get(reported.partition("-")[0], "-fcf-protection")
    commands = []
    for name, recipe in (PROGRAMS | (CLANG if compiler == "gcc" else {})).items():
        if names is not None and name not in names:
            continue
        source, *flags = recipe.replace("-fcf-protection", protection).split()
        made = into / name
        needed = [HERE / source, *HERE.glob("*.h"), Path(__file__)]
        newest = max(file.stat().st_mtime for file in needed)
        if made.is_file() and made.stat().st_mtime > newest:
            continue
        words = ["clang"] if name in CLANG else shlex.split(compiler)
        if source.endswith(".cc"):
            prefix, dash, tool = words[-1].rpartition("-")
            words[-1] = prefix + dash + CXX.get(tool, tool)
        commands.append(([*words, *flags, str(HERE / source)], made))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda each: _run(*each), commands))


def _run(command: list[str], made: Path) -> None:
    part = made.with_name(f".{made.name}")
    subprocess.run([*command, "-o", str(part)], check=True)
    part.rename(made)  # whole, or not there


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])
