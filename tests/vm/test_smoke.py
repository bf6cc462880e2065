"""The smoke run: its tests exist and may run in the guest."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import programs
import smoke
from kernels import KERNELS

REPOSITORY = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).parent / "guest"


@cache
def collected() -> str:
    """What pytest finds as in guests, before any test is left out; it takes long."""
    features = ",".join(sorted(KERNELS["6.1"].features))
    environment = {"LBTRACE_REQUIRE": "kernel", "LBTRACE_VM_FEATURES": features}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"]
    done = subprocess.run(
        [*command, "-m", "not slow and not host", "tests/kernel", "tests/vm/guest/check_demo.py"],
        cwd=REPOSITORY,
        env={**os.environ, **environment, "PYTHONPATH": f"{REPOSITORY}:{GUEST}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_row_is_a_test() -> None:
    names = [row.test for row in smoke.ROWS]
    # The guest's shell and pytest's command line take them as words.
    assert [name for name in names if " " in name] == []
    assert len(set(names)) == len(names)
    wanted = {name.replace("guest/", "tests/vm/guest/") for name in (*names, *smoke.NEWEST)}
    assert wanted <= {*collected().splitlines()}


def test_each_row_has_a_reason() -> None:
    assert [row.test for row in smoke.ROWS if not row.shows] == []


def test_what_is_left_out_is_there() -> None:
    """Of each pattern, so that none stays when its tests are gone."""
    left_out = programs.load(GUEST / "left_out.py")
    lists = (left_out.COMMAND_LINE, left_out.SIMILAR, left_out.HEAVY, left_out.TOOLS)
    for pattern in (*itertools.chain(*lists), *left_out.COOKIELESS, *left_out.MULTI):
        assert re.search(pattern, collected()), pattern
