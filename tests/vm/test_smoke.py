"""The smoke run: its tests exist and may run in the guest."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import programs
import smoke
from kernels import KERNELS

REPOSITORY = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).parent / "guest"


def pytest_as_in_guests(
    at: Path, *words: str, kernel: str = "6.1"
) -> subprocess.CompletedProcess[str]:
    features = ",".join(sorted(KERNELS[kernel].features))
    environment = {"LBTRACE_REQUIRE": "kernel", "LBTRACE_VM_FEATURES": features}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "left_out"]
    return subprocess.run(
        [*command, "-m", "not slow and not host", *words],
        cwd=at,
        env={**os.environ, **environment, "PYTHONPATH": f"{REPOSITORY}:{GUEST}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_row_is_a_test() -> None:
    names = [row.test for row in smoke.ROWS]
    # The guest's shell and pytest's command line take them as words.
    assert [name for name in names if " " in name] == []
    assert len(set(names)) == len(names)
    here = [name.replace("guest/", "tests/vm/guest/") for name in names]
    done = pytest_as_in_guests(REPOSITORY, "--collect-only", *here)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line for line in done.stdout.splitlines() if "::" in line} == set(here)


def test_those_of_the_newest_kernel_are_tests() -> None:
    done = pytest_as_in_guests(REPOSITORY, "--collect-only", *smoke.NEWEST, kernel="newest")
    assert {line for line in done.stdout.splitlines() if "::" in line} == {*smoke.NEWEST}, done


def test_each_row_has_a_reason() -> None:
    assert [row.test for row in smoke.ROWS if not row.shows] == []


def test_what_is_left_out_is_there() -> None:
    """Of each pattern, so that none stays when its tests are gone."""
    left_out = programs.load(GUEST / "left_out.py")

    done = pytest_as_in_guests(REPOSITORY, "--collect-only", "-p", "no:left_out", "tests/kernel")
    lists = (left_out.COMMAND_LINE, left_out.SIMILAR, left_out.HEAVY, left_out.TOOLS)
    for pattern in (*itertools.chain(*lists), *left_out.COOKIELESS, *left_out.MULTI):
        assert re.search(pattern, done.stdout), pattern
