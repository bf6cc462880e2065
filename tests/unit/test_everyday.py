"""The runner of the everyday tests (tests/runs/everyday.py): what fails once, twice, or crashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs import everyday

ONCE = """
from pathlib import Path

def test_once():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "only the first time"
"""
TWICE = "def test_twice():\n    assert not 'always'\n"
FINE = "def test_fine():\n    pass\n"
SIX = "".join(f"def test_{n}():\n    assert 0\n" for n in range(6))
CRASH = "import os\ndef test_crash():\n    os._exit(3)\n"
UNREADABLE = "import nothing_of_this_name\n"

KNOWN = """
[[flaky]]
test = "test_once.py::test_once"
cause = "it counts its runs"
seen = 2026-11-23
until = 2026-12-23
"""

PARTS = (("together", ("-n", "1", "-m", "not alone"), 100), ("alone", ("-m", "alone"), 100))

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs files of tests; returns the status, and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow:\n  alone:\n")

    def run(known: str = "", **files: str) -> tuple[int, str]:
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        (tmp_path / "ledger.toml").write_text(known)
        status = everyday.main(["."], tmp_path / "out", tmp_path / "ledger.toml", PARTS)
        return status, capfd.readouterr().out

    return run


def notes(tmp_path: Path) -> str:
    return (tmp_path / "out/flaky.txt").read_text()


@pytest.mark.parametrize("mark", ["", "import pytest\npytestmark = pytest.mark.alone\n"])
def test_what_fails_once_is_flaky(run: Run, tmp_path: Path, mark: str) -> None:
    status, said = run(once=mark + ONCE, fine=FINE)
    assert status == 0
    assert said.splitlines()[-1] == (
        "flaky: test_once.py::test_once (not in ledger.toml yet: write down its cause and date)"
    )
    assert notes(tmp_path).startswith("test_once.py::test_once\n")
    assert "only the first time" in notes(tmp_path)


def test_what_is_known_of_a_flaky_test_is_shown(run: Run) -> None:
    status, said = run(known=KNOWN, once=ONCE)
    assert status == 0
    assert "known since 2026-11-23, to be mended by 2026-12-23: it counts its runs" in said


def test_what_fails_twice_fails(run: Run, tmp_path: Path) -> None:
    status, said = run(twice=TWICE, once=ONCE)
    assert status == 1
    assert "failed twice: test_twice.py::test_twice" in said
    assert "flaky: test_once.py::test_once" in said
    assert "test_twice" not in notes(tmp_path)


def test_many_failures_are_not_tried_again(run: Run) -> None:
    status, said = run(six=SIX)
    assert status == 1
    assert "more than 5" in said
    assert "once more" not in said


@pytest.mark.parametrize("broken", [CRASH, UNREADABLE])
def test_a_pytest_that_crashes_fails(run: Run, broken: str) -> None:
    status, said = run(broken=broken, fine=FINE)
    assert status == 1
    assert "did not come to its end" in said


def test_nothing_of_an_earlier_run_is_left(run: Run, tmp_path: Path) -> None:
    assert run(once=ONCE)[0] == 0
    assert run(once=FINE)[0] == 0
    assert not (tmp_path / "out/flaky.txt").exists()


def test_the_ledger_is_complete() -> None:
    tomllib = pytest.importorskip("tomllib")
    ledger = tomllib.loads((everyday.ROOT / "tests/flaky.toml").read_text())
    for entry in ledger.get("flaky", ()):
        assert {"test", "cause", "seen", "until"} == set(entry), entry
        assert entry["seen"] < entry["until"], entry
        file = everyday.ROOT / entry["test"].partition("::")[0]
        assert file.exists(), f"{entry['test']} is gone: remove it"
