"""The page of kernels, from JUnit files that pytest wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import table

TESTS = """
import pytest

@pytest.fixture(autouse=True, scope="session")
def _properties(record_testsuite_property):
    record_testsuite_property("release", "6.12.1")
    record_testsuite_property("feature multi", "yes")

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip
def test_skipped(): pass
@pytest.fixture
def broken(): raise OSError
def test_errs(broken): pass
"""


def test_counts_and_features_come_from_pytests_own_file(tmp_path: Path) -> None:
    (tmp_path / "test_calls.py").write_text(TESTS)
    junit = tmp_path / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={junit}"]
    subprocess.run(
        [*command, "-o", "junit_suite_name=6.12", "--rootdir", str(tmp_path), str(tmp_path)],
        check=False,
        capture_output=True,
    )
    run = table.read(junit)
    assert run.kernel == "6.12"
    assert run.features == {"multi": "yes"}
    assert run.results == {"calls": {"passed": 1, "failed": 2, "skipped": 1}}
    text = table.render([run, table.Run("5.10", {}, {})])
    assert "|  | 6.12 | 5.10 |\n" in text
    assert "| calls | 1 passed, 2 failed, 1 skipped |  |\n" in text


def test_page_stays_without_results(tmp_path: Path) -> None:
    page = tmp_path / "kernels.md"
    page.write_text("the page")
    command = [sys.executable, table.__file__, tmp_path / "results", page]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("holds no results: run `make vm-matrix` first\n")
    assert page.read_text() == "the page"
    (tmp_path / "results/6.12").mkdir(parents=True)
    junit = '<testsuites><testsuite name="6.12"/></testsuites>'
    (tmp_path / "results/6.12/junit.xml").write_text(junit)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "without 5.10 6.1 newest arm64-6.12" in done.stdout
    assert "|  | 6.12 |" in page.read_text()
