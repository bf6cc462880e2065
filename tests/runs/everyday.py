"""The everyday tests: several at a time, then those that want the machine for themselves.

    python -m tests.runs.everyday [WHAT PYTEST RUNS ...]    (from the project's root)

What fails runs once more, alone, in a fresh process. What passes then is flaky: it is listed in
the last lines and in build/out/flaky.txt, and belongs into tests/flaky.toml until it is mended.
What fails twice, more failures than `FEW`, or a pytest that crashes fails the run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.runs.stage import Outcome, Stage, run, table

ROOT = Path(__file__).resolve().parents[2]

FEW = 5
"""First failures of which each may be bad luck."""

AGAIN = 420
"""Seconds for one test that runs once more."""

WORKERS = 2 * (os.cpu_count() or 1)
"""The tests wait for processes half of their time."""

Part = tuple[str, tuple[str, ...], float]
"""Some of the tests: a name, options of pytest, a limit in seconds."""

PARTS: tuple[Part, ...] = (
    ("together", ("-n", str(WORKERS), "--dist", "worksteal", "-m", "not slow and not alone"), 1200),
    ("alone", ("-m", "alone and not slow"), 600),
)
ENDED = (0, 1, 5)
"""Statuses of a pytest that came to its end: passed, some failed, there was none."""


@dataclass(frozen=True)
class Failure:
    """A test that failed, the last lines it said, and whether it took pytest along."""

    test: str
    said: str
    crashed: bool


def main(tests: Sequence[str], out: Path, known: Path, parts: Iterable[Part] = PARTS) -> int:
    """Run the parts and judge; returns the exit status."""
    notes = out / "flaky.txt"
    notes.unlink(missing_ok=True)
    outcomes, failures, crashed = [], {}, False
    for name, options, limit in parts:
        outcome, failed = _pytest(name, [*options, "--durations", "10", *tests], limit, out)
        outcomes.append(outcome)
        crashed |= not outcome.in_time or outcome.status not in ENDED
        crashed |= any(failure.crashed for failure in failed)
        for failure in failed:
            failures.setdefault(failure.test, failure)
    print(table(outcomes))
    if not crashed and not failures:
        return 0
    if crashed or len(failures) > FEW:
        why = "pytest did not come to its end" if crashed else f"more than {FEW} are not bad luck"
        print("\n".join(["", *(f"failed: {test}" for test in failures), f"FAILED: {why}"]))
        return 1
    flaky, twice = [], []
    for number, failure in enumerate(failures.values()):
        print(f"once more, alone: {failure.test}")
        outcome, _ = _pytest(f"again-{number}", [failure.test], AGAIN, out)
        (flaky if outcome.passed else twice).append(failure)
    notes.write_text("\n".join(f"{failure.test}\n{failure.said}\n" for failure in flaky))
    print("\n".join(["", *_told(flaky, known), *(f"failed twice: {f.test}" for f in twice)]))
    if twice:
        print("FAILED: what fails twice is broken")
    return 1 if twice else 0


def _pytest(
    name: str, options: Sequence[str], limit: float, out: Path
) -> tuple[Outcome, list[Failure]]:
    """One pytest, with a cache of its own so that none forgets another's failures."""
    record = out / "failures" / f"{name}.jsonl"
    record.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", "-p", "tests.runs.record", "--record", str(record)),
        *("-o", f"cache_dir={out / 'cache' / name}", "--timeout", "300", *options),
    ]
    outcome = run(Stage(name, command, limit), os.environ | {"PYTHONPATH": str(ROOT)})
    lines = record.read_text().splitlines() if record.exists() else []
    return outcome, [Failure(**json.loads(line)) for line in lines]


def _told(flaky: Sequence[Failure], known: Path) -> list[str]:
    """A line for each flaky test, with what tests/flaky.toml knows of it."""
    import tomllib  # which Python 3.10 lacks

    ledger = {entry["test"]: entry for entry in tomllib.loads(known.read_text()).get("flaky", ())}
    lines = []
    for failure in flaky:
        entry = ledger.get(failure.test)
        about = (
            f"known since {entry['seen']}, to be mended by {entry['until']}: {entry['cause']}"
            if entry
            else f"not in {known.name} yet: write down its cause and date"
        )
        lines.append(f"flaky: {failure.test} ({about})")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["tests"], ROOT / "build/out", ROOT / "tests/flaky.toml"))
