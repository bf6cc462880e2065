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
CRASH = "import os\ndef test_crash():\n    os._exit({})\n"
KILLED = "import os\nos.kill(os.getpid(), 9)\n" + TWICE
ALONE = "import pytest\npytestmark = pytest.mark.alone\n"
UNREADABLE = "import nothing_of_this_name\n"

PARTS = (("together", ("-n", "1", "-m", "not alone")), ("alone", ("-m", "alone")))

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs files of tests; returns the status, and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow:\n  alone:\n")

    def run(known: str = "", whole: float = 100, **files: str) -> tuple[int, str]:
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        (tmp_path / "ledger.toml").write_text(known)
        status = everyday.main(["."], tmp_path / "out", tmp_path / "ledger.toml", PARTS, whole)
        return status, capfd.readouterr().out

    return run


def notes(tmp_path: Path) -> str:
    return (tmp_path / "out/flaky.txt").read_text()


@pytest.mark.parametrize("mark", ["", ALONE])
def test_what_fails_once_is_flaky(run: Run, tmp_path: Path, mark: str) -> None:
    status, said = run(once=mark + ONCE, fine=FINE)
    assert status == 0
    assert said.splitlines()[-1] == (
        "flaky: test_once.py::test_once (not in ledger.toml yet: write down its cause and date)"
    )
    assert notes(tmp_path).startswith("test_once.py::test_once\n")
    assert "only the first time" in notes(tmp_path)


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


@pytest.mark.parametrize("mark", ["", ALONE])
@pytest.mark.parametrize(
    "broken", [CRASH.format(0), CRASH.format(1), CRASH.format(3), KILLED, UNREADABLE]
)
def test_a_pytest_that_does_not_come_to_its_end_fails(run: Run, broken: str, mark: str) -> None:
    status, said = run(broken=mark + broken, fine=FINE)
    assert status == 1
    assert "FAILED, not whole" in said


def test_a_limit_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everyday, "PATIENCE", 1)
    status, said = run(slow="import time\ndef test_slow():\n    time.sleep(60)\n", whole=5)
    assert status == 1
    assert "ended at its limit" in said


def test_the_ledger_is_complete() -> None:
    tomllib = pytest.importorskip("tomllib")
    ledger = tomllib.loads((everyday.ROOT / "tests/flaky.toml").read_text())
    for entry in ledger.get("flaky", ()):
        assert {"test", "cause", "seen", "until"} == set(entry), entry
        assert entry["seen"] < entry["until"], entry
        name, _, test = entry["test"].partition("::")
        text = (everyday.ROOT / name).read_text()
        assert f"def {test.partition('[')[0]}(" in text, f"{entry['test']} is gone: remove it"
