"""Variables at lines of real programs, against gdb: a sample that each commit changes."""

from __future__ import annotations

import os
import random

import pytest

from tests.lines_programs import BUILDS, run

SEED = os.environ["LBTRACE_SEED"]

QUICK = ("lua", "regex")
"""What takes under a minute."""

BY_PROGRAM = [[build for build in BUILDS if build.startswith(f"{name}:")] for name in QUICK]

WHOLE = bool(os.environ.get("LBTRACE_WHOLE"))

CHOSEN = BUILDS if WHOLE else [*map(random.Random(SEED).choice, BY_PROGRAM)]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("build", CHOSEN)
def test_variables_equal_those_of_gdb(build: str) -> None:
    result = run(build, SEED, 250 if WHOLE else 100)
    assert not result.wrong, "\n".join([f"{build} seed {SEED}", *result.wrong])
    assert result.varied <= result.equal / 50 or "redis" in build or "go" in build, result.counts()
    assert result.stops > 20, result.counts()
    assert result.equal > 50, result.counts()
