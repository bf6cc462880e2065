"""Runs the long checks, each by its name, and keeps what came of them.

    python -m tests.runs.checks [--with VARIABLES] all|NAME...    (from the project's root)
    python -m tests.runs.checks --table [PAGE]

With ``all`` every check runs that has not passed for this commit yet, so that a run that was
stopped goes on where it was. One that fails does not stop the others. Results are in
build/out/checks, for each check NAME.json and what it printed in NAME.log. ``--with`` notes
variables that make a check another one, such as FUZZ_SECONDS=5. ``--table`` prints the results,
and writes them into a page. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tests.harmless.offspring import adopt, kill_all
from tests.runs import check_results, stage
from tests.runs.check_results import Result, Tree

REPOSITORY = Path(__file__).resolve().parents[2]

OUT = REPOSITORY / "build/out/checks"

HOUR = 3600

SHORTENING = ("FUZZ_SECONDS", "KERNELS", "PYTEST_ADDOPTS", "LBTRACE_READBACK", "LBTRACE_PROGRAMS")
"""Variables that make a check a smaller one: those of the environment do not reach it, those of
make's command line do, and are noted."""


@dataclass(frozen=True)
class Check:
    """A long check: its name, what it shows, its command, and the seconds that it may take."""

    name: str
    shows: str
    command: Sequence[str]
    limit: float


CHECKS = (
    Check(
        "slow",
        "the slow tier, without samples: compilers, versions of Go, random programs",
        ("env", "LBTRACE_WHOLE=1", "make", "test-slow"),
        12 * HOUR,
    ),
    Check("matrix", "the kernel tests on each kernel, in QEMU", ("make", "vm-matrix"), 3 * HOUR),
    Check(
        "vagrant",
        "a Vagrant machine comes up, passes the kernel tests and goes",
        ("make", "vm-validate", "vm-vagrant"),
        2 * HOUR,
    ),
    Check(
        "harmless",
        "104 jobs of real programs do the same traced as untraced, in every mode of returns",
        ("make", "harmless"),
        72 * HOUR,
    ),
    Check(
        "sites",
        "every site in plans of whole packages is an instruction to objdump, too",
        ("make", "sites"),
        12 * HOUR,
    ),
    Check(
        "lines",
        "variables at lines of real programs are those that gdb shows",
        ("make", "lines"),
        12 * HOUR,
    ),
    Check(
        "fuzz",
        "readers of files and events survive what fuzzers write, FUZZ_SECONDS (600) each",
        ("make", "fuzz"),
        4 * HOUR,
    ),
    Check("bench", "what a traced call costs, beside bpftrace", ("make", "bench"), 2 * HOUR),
    Check(
        "debian",
        "the gate passes on a fresh minimal Debian with an empty home",
        ("make", "debian"),
        3 * HOUR,
    ),
)


def main(
    words: Sequence[str] | None = None,
    *,
    table: Sequence[Check] = CHECKS,
    out: Path = OUT,
    repository: Path = REPOSITORY,
) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--with", dest="variables", default="", help="variables that were given")
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks, or all; or the page")
    given = parser.parse_args(words)
    known = {check.name: check for check in table}
    if given.table:
        for page in given.names:
            shown = {check.name: check.shows for check in table}
            check_results.write_page(Path(page), shown, out)
        print(check_results.overview(list(known), out))
        return 0
    if not given.names or (given.names != ["all"] and set(given.names) - set(known)):
        parser.error(f"there are: all {' '.join(known)}")
    whole = given.names == ["all"]
    chosen = table if whole else [known[name] for name in given.names]
    adopt()
    stage.end_on_signals()
    out.mkdir(parents=True, exist_ok=True)
    lock = (out / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        parser.error(f"another run keeps its results in {out}, and goes on")
    try:
        passed = run(chosen, out, repository, variables=given.variables, anew=not whole)
    except KeyboardInterrupt:
        print("interrupted: the results so far are kept", flush=True)
        return 130
    finally:
        print(check_results.overview(list(known) if whole else given.names, out), flush=True)
    return 0 if passed else 1


def run(
    checks: Sequence[Check], out: Path, repository: Path, *, variables: str = "", anew: bool = False
) -> bool:
    """Run checks one after the other, those that passed only if ``anew``; whether all passed.

    No process that they started is left.
    """
    passed = True
    for check in checks:
        tree = check_results.tree_of(repository)
        before = check_results.read(out, check.name)
        if before and not anew and before.stands_for(tree, variables):
            print(f"check-{check.name}: passed already with {tree.commit[:7]}", flush=True)
            continue
        result = _run_one(check, out, repository, tree, variables)
        passed = passed and result.passed
    return passed


def _run_one(check: Check, out: Path, repository: Path, tree: Tree, variables: str) -> Result:
    log = out / f"{check.name}.log"
    began = datetime.now(timezone.utc)
    print(f"check-{check.name}: begins; its output is in {log}", flush=True)
    try:
        kept = {name: value for name, value in os.environ.items() if name not in SHORTENING}
        outcome = stage.run(stage.Stage(check.name, check.command, check.limit), kept, log)
    finally:
        kill_all()
    # A tree that was changed meanwhile is not the one that was checked.
    dirty = tree.dirty or check_results.tree_of(repository) != tree
    result = Result(
        check.name,
        tree.commit,
        dirty,
        variables,
        began.isoformat(timespec="seconds"),
        round(outcome.seconds, 1),
        outcome.verdict,
        check_results.figures(log),
    )
    check_results.keep(out, result)
    print(f"check-{check.name}: {result.verdict}, {result.figures or 'no figures'}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
