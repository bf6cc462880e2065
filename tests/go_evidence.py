"""Long runs of Go programs under trace, and figures of large ones.

    python tests/go_evidence.py [recursion | soak | large ...]

Evidence beyond the everyday tests; it takes a quarter of an hour, as root.

recursion   100 goroutines compute fib(25) on two processors while their stacks
            grow, shrink and move: every one of 24,278,500 calls is as the
            program itself counts it
soak        a program that grows and shrinks stacks, panics, recovers and spawns
            for LBTRACE_SOAK seconds (600), all its main.* functions traced,
            stays right in all it computes
large       Debian's Go programs: how long it takes to list all functions, and
            to attach to some 2,000 of Go's libraries
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import go_toolchains
import msgspec
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "tests/programs/go"
LBTRACE = [sys.executable, "-m", "lbtrace"]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(ROOT),
    "GOMAXPROCS": "2",
    "GODEBUG": "gcshrinkstackoff=0",
}

VERSIONS = ("1.15", "1.27.3")
GOROUTINES, DEPTH, RESULT = 100, 25, 75025
CALLS = 242_785
"""Of each goroutine: 2 * fib(26) - 1."""

LIBRARIES = r"/^(net\/http|crypto\/tls|encoding\/json)\./"

SHOWN = 10
"""Wrong calls that are printed."""


class Argument(Struct):
    value: int


class Line(Struct):
    """What is looked at of a line of jsonl."""

    type: str
    args: list[Argument] = []
    result: int | None = None
    depth: int = 0
    end: str = ""
    goroutine: int = 0
    lost: dict[str, int] = {}


def built(name: str, version: str) -> Path:
    into = go_toolchains.MADE / f"{name}-{version}-plain"
    return go_toolchains.build(version, SOURCES / f"{name}.go", into)


def recursion() -> bool:
    return _recursion(VERSIONS[-1])


def _recursion(version: str) -> bool:
    program = built("many", version)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lbtrace-go-") as directory:
        pipe, own = Path(directory, "calls.jsonl"), Path(directory, "own")
        os.mkfifo(pipe)
        words = ("attach", "--func", "main.fib", "--binary", program, "--ring-size", "256M")
        words += ("--quiet", "-o", pipe, "--")
        command = f"exec {program} {GOROUTINES} {DEPTH} >{own}"
        tracer = subprocess.Popen([*LBTRACE, *words, "sh", "-c", command], env=ENVIRONMENT)
        results = [0, 1]
        while len(results) <= DEPTH:
            results.append(results[-1] + results[-2])
        seen: Counter[int] = Counter()
        wrong = 0
        goroutines: dict[int, int] = {}
        lost: dict[str, int] = {}
        decode = msgspec.json.Decoder(Line).decode
        with pipe.open("rb") as lines:
            for line in lines:
                call = decode(line)
                if call.type == "call":
                    worker, n = call.args[0].value, call.args[1].value
                    seen[worker] += 1
                    if (
                        call.end != "returned"
                        or call.result != results[n]
                        or call.depth > DEPTH - n
                        or goroutines.setdefault(worker, call.goroutine) != call.goroutine
                    ):
                        wrong += 1
                        if wrong <= SHOWN:
                            print("wrong:", line.decode().strip(), flush=True)
                elif call.type == "summary":
                    lost = call.lost
        status = tracer.wait()
        counted = [tuple(map(int, line.split())) for line in own.read_text().splitlines()]
    expected = [(worker, CALLS, RESULT) for worker in range(GOROUTINES)]
    agrees = counted == expected and seen == dict.fromkeys(range(GOROUTINES), CALLS)
    agrees &= len(set(goroutines.values())) == GOROUTINES
    print(
        f"recursion, Go {version}: {seen.total():,} calls of {GOROUTINES * CALLS:,}, {wrong} wrong,"
        f" lost {sum(lost.values())}, status {status}, {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    return agrees and not wrong and not status and not any(lost.values())


def soak() -> bool:
    seconds = int(os.environ.get("LBTRACE_SOAK", "600"))
    well = True
    for version in VERSIONS:
        words = ("attach", "--func", "main.*", "--format", "lbt", "-o", "/dev/null", "--")
        command = [*LBTRACE, *words, built("churn", version), str(seconds // len(VERSIONS))]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        print(f"soak, Go {version}: status {done.returncode}", *done.stdout.splitlines(), sep="; ")
        print(done.stderr.strip(), flush=True)
        well &= not done.returncode and "main.sum " in done.stdout
    return well


def large() -> bool:
    well = True
    for package in go_toolchains.PROGRAMS:
        program = go_toolchains.program(package)
        listed, took, busy = _timed("list", "--binary", program)
        names = [line.split(maxsplit=2)[2] for line in listed.stdout.splitlines()]
        print(f"{package}: {len(names):,} functions listed in {took:.2f} s ({busy:.2f} s of CPU)")
        words = ("attach", "--binary", program, "--func", LIBRARIES)
        planned = _timed(*words, "--dry-run")[0].stdout.count("returns by")
        traced, took, busy = _timed(*words, "--format", "lbt", "-o", "/dev/null", "--", "true")
        print(f"{package}: {planned:,} attached and detached in {took:.2f} s ({busy:.2f} s of CPU)")
        well &= not traced.returncode and planned > 0
        well &= not listed.returncode and "main.main" in names
    return well


def _timed(*words: object) -> tuple[subprocess.CompletedProcess[str], float, float]:
    """What a command of lbtrace printed, and how long it took: by the clock, and of CPU."""
    begun, before = time.monotonic(), os.times()
    done = subprocess.run(
        [*LBTRACE, *map(str, words)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    busy = after.children_user + after.children_system
    busy -= before.children_user + before.children_system
    return done, time.monotonic() - begun, busy


PARTS = {"recursion": recursion, "soak": soak, "large": large}

if __name__ == "__main__":
    outcomes = [PARTS[name]() for name in sys.argv[1:] or PARTS]
    sys.exit(not all(outcomes))
