"""A sample of the files of `make check-sites`, others with each commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sites_of_packages_are_instructions() -> None:
    command = [sys.executable, ROOT / "tests/check_sites.py", "--sample", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
