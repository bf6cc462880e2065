"""Runs real programs untraced and traced, and compares status, output and files.

    python tests/harmless/compare.py [--jobs NAME,...] [--sample SEED] [--seconds N]
        [--patience N] [--log FILE] [--each]

Traced are all functions of the program and of its libraries at once, with ``--each`` then also
of each file alone, in each mode of ``--returns``. A run that lbtrace refuses must give its reason.
Programs and libraries are private copies: a trace then reaches no one else.

With ``--log`` the results are added to a file, and what it says already is not run again, but
for what differed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jobs import Job, read
from offspring import adopt
from results import Log
from workbench import ROOT, Bench, Outcome

LOADER = "/lib64/ld-linux-x86-64.so.2"

LBTRACE = (LOADER, "--argv0", sys.executable, "--library-path", "/lib/x86_64-linux-gnu") + (
    (os.path.realpath(sys.executable), "-m", "lbtrace")
)
"""lbtrace with the system's libraries, where the job has copies: its own calls of those that it
traces are slow."""

Round = tuple[str, str]
"""Whether all files are traced at once or each alone, and how returns are seen."""

RETURNS = ("auto", "none")

Run = tuple[str, tuple[str, ...]]
"""How returns are seen, and the files that are traced."""


class Comparison:
    """Compares jobs until ``deadline``, a monotonic time."""

    def __init__(self, log: Log, patience: float, deadline: float) -> None:
        self._log = log
        self._patience = patience
        self._deadline = deadline

    def over(self) -> bool:
        """Whether no further run is to begin."""
        return time.monotonic() > self._deadline

    def compare(self, job: Job, rounds: Sequence[Round], pick: random.Random | None = None) -> None:
        """Compare the runs of a job in ``rounds``, or two that ``pick`` takes of them."""
        with tempfile.TemporaryDirectory(prefix="harmless-") as scratch:
            try:
                bench = Bench(job, Path(scratch) / "job", self._patience)
            except subprocess.CalledProcessError as error:
                self._log.add("different", job.name, f"cannot be set up: {error.stderr[-300:]!r}")
                return
            runs = _runs(bench, rounds)
            self._compare(bench, pick.sample(runs, min(2, len(runs))) if pick else runs)

    def _compare(self, bench: Bench, runs: list[Run]) -> None:
        left = [run for run in runs if not self._log.has(_describe(bench, *run))]
        if not left:
            return
        first = bench.run()
        time.sleep(1.1)  # so that a time that is printed or written shows
        again = bench.run()
        if first != again:
            change = f"from run to run, untraced: {_difference(first, again)}"
            self._log.add("different", bench.job.name, change)
            return
        for returns, traced in left:
            if not self.over():
                self._trace(bench, first, returns, traced)

    def _trace(self, bench: Bench, plain: Outcome, returns: str, traced: tuple[str, ...]) -> None:
        what = _describe(bench, returns, traced)
        started = time.monotonic()
        try:
            found = bench.run(*_attach(bench.job, returns, traced))
        except subprocess.TimeoutExpired:
            self._log.add("given up", what, f"after {self._patience:.0f} s")
            return
        if found.refused:
            self._log.add("refused", what, found.refused)
        elif found != plain:
            self._log.add("different", what, _difference(plain, found))
        else:
            took = time.monotonic() - started
            self._log.add("same", what, f"{found.calls:,} calls, {took:.1f} s")


def _describe(bench: Bench, returns: str, traced: tuple[str, ...]) -> str:
    files = os.path.basename(traced[0]) if len(traced) == 1 else f"all {len(traced)} files"
    return f"{bench.job.name}: {files} --returns {returns}"


def _attach(job: Job, returns: str, binaries: tuple[str, ...]) -> tuple[str, ...]:
    """The words that trace all functions of ``binaries`` in the command that follows them."""
    words = ["attach", "--force", "--func", "*", "--returns", returns]
    words += ["--format", "lbt", "-o", os.devnull]
    words += ["--user", job.user] if job.user else []
    words += [word for binary in binaries for word in ("--binary", binary)]
    return (*LBTRACE, *words, "--")


def _names(file: str | Path) -> bool:
    """Whether lbtrace knows functions of ``file``."""
    words = [*LBTRACE, "list", "--binary", file]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return not subprocess.run(words, capture_output=True, env=environment, check=False).returncode


def _runs(bench: Bench, rounds: Sequence[Round]) -> list[Run]:
    """The runs of a job in ``rounds``."""
    files = [*bench.libraries]
    if _names(bench.program):  # most programs of packages are stripped
        files.insert(0, "{program}")
    together = [file for file in files if file == "{program}" or _names(file)] or ["{program}"]
    choices: dict[str, list[tuple[str, ...]]] = {
        "all": [tuple(together)],
        "each": [(file,) for file in files if len(files) > 1],
    }
    return [(returns, traced) for what, returns in rounds for traced in choices[what]]


def _difference(one: Outcome, other: Outcome) -> str:
    if one.status != other.status:
        return f"status {one.status} became {other.status}: {other.output[-300:]!r}"
    if one.output != other.output:
        pairs = enumerate(zip(one.output, other.output, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), 0)
        before, after = (o.output[max(0, same - 40) : same + 120] for o in (one, other))
        return f"output {before!r} became {after!r}"
    return f"files {sorted(set(one.files) ^ set(other.files))}"


def main() -> int:
    """0 if nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", help="names, with commas between them")
    parser.add_argument("--sample", help="a seed: a few runs of each job, in another order")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after so long")
    parser.add_argument("--patience", type=float, default=240, help="seconds a run may take")
    parser.add_argument("--each", action="store_true", help="trace each file alone, too")
    parser.add_argument("--log", type=Path, help="go on from this file, and add to it")
    given = parser.parse_args()
    known = {job.name: job for job in read()}
    jobs = [known[name] for name in given.jobs.split(",")] if given.jobs else list(known.values())
    adopt()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    log = Log(given.log)
    comparison = Comparison(log, given.patience, time.monotonic() + given.seconds)
    pick = random.Random(given.sample) if given.sample else None
    if pick:
        pick.shuffle(jobs)
    whats = ("all", "each") if given.each or pick else ("all",)
    every = [(what, returns) for what in whats for returns in RETURNS]
    for rounds in [every] if pick else [[one] for one in every]:
        for job in jobs:
            if not comparison.over():
                comparison.compare(job, rounds, pick)
    print(f"figures: {log.summary()}")
    return bool(log.different)


if __name__ == "__main__":
    sys.exit(main())
