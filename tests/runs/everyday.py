"""The everyday tests, several at a time.

    python -m tests.runs.everyday [WHAT PYTEST RUNS ...]    (from the project's root)

What fails runs once more, alone, in a fresh process. What passes then is flaky: it is listed in
the last lines and in build/out/flaky.txt, and belongs into tests/flaky.toml until it is mended.
What fails twice, more failures than `FEW`, or a pytest that does not come to its end fails the
run; build/out/failed.txt has those.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.harmless.offspring import adopt, kill_all
from tests.runs.stage import Outcome, Stage, end_on_signals, run, table

ROOT = Path(__file__).resolve().parents[2]

FEW = 5
"""First failures of which each may be bad luck."""

WHOLE = 36 * 60
"""Seconds for all of it, a little less than the gate gives (gate.py), so that this reports."""

AGAIN = 330
"""Seconds for one test that runs once more."""

PATIENCE = 20
"""Seconds that an interrupted pytest has, less than this process is given itself."""

WORKERS = 2 * (os.cpu_count() or 1)
"""The tests wait for processes half of their time."""

TOGETHER = ("-n", str(WORKERS), "--dist", "worksteal", "-m", "not slow", "--durations", "10")


@dataclass(frozen=True)
class Failure:
    """A test that failed, the last lines it said, and whether it took pytest along."""

    test: str
    said: str
    crashed: bool = False


@dataclass(frozen=True)
class Run:
    """One pytest: how it ended, its failures, and how many tests it found, began and passed;
    None where it did not come to its end."""

    outcome: Outcome
    failures: Sequence[Failure]
    found: int | None = None
    begun: int | None = None
    passed: int | None = None

    @property
    def whole(self) -> bool:
        """Whether all tests that were found ran, and the exit status says the same."""
        if not self.outcome.in_time or any(failure.crashed for failure in self.failures):
            return False
        status = 1 if self.failures else 0 if self.found else 5
        return self.found is not None and self.found == self.begun and self.outcome.status == status


def main(tests: Sequence[str], out: Path, known: Path) -> int:
    """Run the tests and judge; returns the exit status."""
    deadline = time.monotonic() + WHOLE
    flaky_file, failed_file = out / "flaky.txt", out / "failed.txt"
    for file in (flaky_file, failed_file):
        file.unlink(missing_ok=True)
    first = _pytest("together", [*TOGETHER, *tests], deadline, out)
    print(table([first.outcome]))
    broken = "" if first.whole else "not whole"
    if not first.found:
        broken = "no test was found"
    failures = {failure.test: failure for failure in first.failures}
    if not broken and not failures:
        return 0
    if broken or len(failures) > FEW:
        reason = broken or f"more than {FEW} failures"
        _tell(failed_file, list(failures.values()))
        print("\n".join(["", *(f"failed: {test}" for test in failures), f"FAILED, {reason}"]))
        return 1
    flaky, twice = [], []
    for number, failure in enumerate(failures.values()):
        print(f"once more, alone: {failure.test}")
        until = min(deadline, time.monotonic() + AGAIN)
        again = _pytest(f"again-{number}", [failure.test], until, out)
        passes = again.whole and not again.failures and again.passed
        (flaky if passes else twice).append(failure)
    _tell(flaky_file, flaky)
    _tell(failed_file, twice)
    lines = [f"flaky: {failure.test} ({_known(failure.test, known)})" for failure in flaky]
    print("\n".join(["", *lines, *(f"failed twice: {failure.test}" for failure in twice)]))
    if twice:
        print("FAILED, what does not pass alone either is broken")
    return 1 if twice else 0


def _pytest(name: str, options: Sequence[str], deadline: float, out: Path) -> Run:
    """One pytest, with a cache of its own so that none forgets another's failures."""
    record = out / "failures" / f"{name}.jsonl"
    record.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", "-p", "tests.runs.record", "--record", str(record)),
        *("-o", f"cache_dir={out / 'cache' / name}", "--timeout", "300", *options),
    ]
    # What pytest compiles of the tests serves the tests that collect tests.
    own = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": ""}
    environment = os.environ | own
    left = max(1.0, deadline - time.monotonic())
    outcome = run(Stage(name, command, left), environment, patience=PATIENCE)
    lines = map(json.loads, record.read_text().splitlines() if record.exists() else ())
    failures: list[Failure] = []
    end: dict[str, int] = {}
    for line in lines:
        if "test" in line:
            failures.append(Failure(**line))
        else:
            end = line
    return Run(outcome, failures, **end)


def _tell(file: Path, failures: Sequence[Failure]) -> None:
    """Write down failures, if there are any."""
    if failures:
        file.write_text("\n".join(f"{failure.test}\n{failure.said}\n" for failure in failures))


def _known(test: str, ledger: Path) -> str:
    """What tests/flaky.toml has about a test."""
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        return f"{ledger.name} is not read here"
    for entry in tomllib.loads(ledger.read_text()).get("flaky", ()):
        if entry["test"] == test:
            overdue = "OVERDUE, " if entry["until"] < date.today() else ""
            until = f"to be mended by {entry['until']}"
            return f"{overdue}known since {entry['seen']}, {until}: {entry['cause']}"
    return f"not in {ledger.name} yet: write down its cause and date"


if __name__ == "__main__":
    adopt()
    end_on_signals()
    try:
        sys.exit(main(sys.argv[1:] or ["tests"], ROOT / "build/out", ROOT / "tests/flaky.toml"))
    finally:
        kill_all()
