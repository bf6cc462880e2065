"""A few of the comparisons of `compare`, others with each commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 240


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_real_programs_run_the_same_traced() -> None:
    seed = os.environ["LBTRACE_SEED"]
    words = [sys.executable, ROOT / "tests/harmless/compare.py", "--sample", seed]
    words += ["--seconds", str(SECONDS), "--patience", "120"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"--sample {seed}\n{done.stdout[-5000:]}{done.stderr[-2000:]}"
