"""The gate: the two commands of README, as on a machine that has nothing else.

    python3 -m tests.runs.gate

Everything runs with the packages of build/bootstrap alone (bare.py). Each stage has a limit, all
together have 55 minutes. Ends with 1 if a stage failed. Needs nothing but Python.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.harmless.offspring import adopt, kill_all
from tests.runs import bare
from tests.runs.stage import Stage, end_on_signals, run, table

WHOLE = 55 * 60
"""Seconds for all stages."""

KINDS = ("build", "test")
"""What of build/bootstrap they need."""

STAGES = (
    Stage("packages", ("make", *(f"build/out/bootstrap-{kind}" for kind in KINDS)), 15 * 60),
    Stage("demo", ("make", "demo"), 5 * 60),
    Stage("test", ("make", "test"), 40 * 60),
)


def main() -> int:
    """Run the stages, and say how long each took; returns the exit status."""
    os.chdir(bare.ROOT)
    reported = [bare.ROOT / "build/out" / name for name in ("flaky.txt", "failed.txt")]
    for file in reported:
        file.unlink(missing_ok=True)
    end = time.monotonic() + WHOLE
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="lbtrace-gate-") as scratch:
        Path(scratch).chmod(0o755)  # tests run programs as other users
        for stage in STAGES:
            print(f"== {stage.name}: {' '.join(stage.command)}", flush=True)
            left = max(1, end - time.monotonic())
            limited = Stage(stage.name, stage.command, min(stage.limit, left))
            outcomes.append(run(limited, bare.environment(Path(scratch), KINDS)))
            kill_all()
            print(table(outcomes[-1:]), flush=True)
            if stage.name == "packages" and not outcomes[-1].passed:
                break
    for file in reported:
        if file.exists():
            print(f"\n== {file.stem}\n{file.read_text()}")
    print(f"\n== all\n{table(outcomes)}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    adopt()
    end_on_signals()
    try:
        sys.exit(main())
    finally:
        kill_all()
