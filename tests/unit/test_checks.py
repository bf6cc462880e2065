"""The long checks: what is kept of them, what is run again, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs import check_results
from tests.runs.checks import CHECKS

ROOT = Path(__file__).resolve().parents[2]

NAMES = [check.name for check in CHECKS]

PAGE = ROOT / "docs/development.md"

SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.runs import checks, stage
stage.PATIENCE = 5
table = [checks.Check(*row) for row in {table!r}]
sys.exit(checks.main({words!r}, table=table, out=Path({out!r}), repository=Path({repository!r})))
"""

Row = tuple[str, str, tuple[str, ...], float]

Start = Callable[..., "subprocess.Popen[str]"]


def row(name: str, script: str, limit: float = 60) -> Row:
    """A check that is a shell script."""
    return name, f"what {name} shows", ("sh", "-c", script), limit


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    path = tmp_path / "repository"
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q", path], [*identity, "-C", path, "commit", "-q", "-m", "1"]):
        more = ["--allow-empty", "--no-verify"] if "commit" in words else []
        subprocess.run(["git", *words, *more], check=True)
    return path


@pytest.fixture
def start(tmp_path: Path, repository: Path) -> Start:
    """Starts the command line with a table of checks."""

    def start(table: list[Row], *words: str) -> subprocess.Popen[str]:
        out = tmp_path / "checks"
        out.mkdir(exist_ok=True)
        script = SCRIPT.format(
            root=str(ROOT),
            table=table,
            words=list(words),
            out=str(out),
            repository=str(repository),
        )
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([sys.executable, "-c", script], **pipes)  # type: ignore[call-overload, no-any-return]

    return start


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    text, _ = process.communicate(timeout=60)
    return process.returncode, text


def counting(path: Path, then: str = "true") -> str:
    """A script that adds a line to a file."""
    return f"echo once >>{path}; {then}"


def test_the_workflow_runs_each_check() -> None:
    text = (ROOT / ".github/workflows/nightly.yml").read_text()
    (listed,) = re.findall(r"^ +check: \[(.*)\]$", text, re.M)
    assert listed.split(", ") == NAMES
    assert "make check-${{ matrix.check }}\n" in text


def test_the_page_has_each_check_and_no_other() -> None:
    text = PAGE.read_text()
    (table,) = re.findall(f"{check_results.BEGIN}(.*){check_results.END}", text, re.S)
    assert re.findall(r"^\| `check-(\w+)` \|", table, re.M) == NAMES
    for page in (PAGE, ROOT / "CONTRIBUTING.md"):
        assert set(re.findall(r"make check-(\w+)", page.read_text())) <= {*NAMES, "all"}


def test_the_makefile_has_what_checks_run() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for check in CHECKS:
        words = check.command[check.command.index("make") + 1 :]
        assert set(words) <= set(targets), check.name


def test_results_are_kept(start: Start, tmp_path: Path, repository: Path) -> None:
    table = [
        row("good", "echo figures: 1 of 2; echo figures: 2 of 2; echo in the end"),
        row("bad", "echo '=== 1 failed, 12 passed in 3.21s ==='; exit 3"),
        row("mute", "true"),
    ]
    status, text = ended(start(table, "--with", "SECONDS=5", "all"))
    assert status == 1
    kept = [json.loads((tmp_path / f"checks/{each[0]}.json").read_text()) for each in table]
    commit = check_results.tree_of(repository).commit
    assert [(each["commit"], each["dirty"]) for each in kept] == [(commit, False)] * 3
    assert [each["verdict"] for each in kept] == ["passed", "failed (status 3)", "passed"]
    assert [each["figures"] for each in kept] == ["2 of 2", "1 failed, 12 passed", ""]
    assert all(each["variables"] == "SECONDS=5" and each["seconds"] < 60 for each in kept)
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\+00:00", each["began"]) for each in kept)
    assert (tmp_path / "checks/good.log").read_text().endswith("in the end\n")
    last = text.splitlines()[-3:]
    assert [line.split()[0] for line in last] == ["check-good", "check-bad", "check-mute"]
    assert re.fullmatch(
        rf"check-bad +failed \(status 3\) \(SECONDS=5\) +{commit[:7]} +[\d-]+ +0 s"
        r" +1 failed, 12 passed",
        last[1],
    )


def test_what_passed_is_not_run_again(start: Start, tmp_path: Path, repository: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    table = [row("bad", counting(bad, "false")), row("good", counting(good))]

    def counts(*words: str) -> list[int]:
        ended(start(table, *words))
        return [len(file.read_text().splitlines()) for file in (bad, good)]

    assert counts("all") == [1, 1]
    assert counts("all") == [2, 1]
    assert counts("good") == [2, 2], "by its name it is"
    assert counts("--with", "SECONDS=5", "all") == [3, 3], "it is another check"
    assert counts("all") == [4, 4]
    (repository / "new").touch()
    assert counts("all") == [5, 5], "the tree has changes"
    assert counts("all") == [6, 6], "which no commit names"
    (repository / "new").unlink()
    assert counts("all") == [7, 7]
    assert counts("all") == [8, 7]
    words = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty"]
    subprocess.run(["git", "-C", repository, *words, "--no-verify", "-m", "2"], check=True)
    assert counts("all") == [9, 8], "another commit"


def test_a_tree_that_changes_meanwhile(start: Start, tmp_path: Path, repository: Path) -> None:
    ended(start([row("slow", f"touch {repository}/new")], "all"))
    assert json.loads((tmp_path / "checks/slow.json").read_text())["dirty"]


def test_a_limit(start: Start, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    # In a session of its own, as virtual machines are.
    endless = f"setsid sh -c 'echo $$ >{begun}; exec sleep 600' & wait"
    status, _ = ended(start([row("endless", endless, 3), row("good", "true")], "all"))
    assert status == 1
    kept = [
        json.loads((tmp_path / f"checks/{each}.json").read_text()) for each in ("endless", "good")
    ]
    assert [each["verdict"] for each in kept] == ["ended at its limit", "passed"]
    assert not Path(f"/proc/{begun.read_text().strip()}").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_goes_on(start: Start, tmp_path: Path, number: int) -> None:
    good, begun, way = tmp_path / "good", tmp_path / "begun", tmp_path / "way"
    waits = f"test -e {way} || {{ echo $$ >{begun}.new; mv {begun}.new {begun}; exec sleep 600; }}"
    table = [row("good", counting(good)), row("waits", waits), row("last", "true")]
    process = start(table, "all")
    while not begun.exists():
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(number)
    if number == signal.SIGKILL:
        process.wait()
        os.kill(int(begun.read_text()), signal.SIGKILL)  # nobody was left to end it
    else:
        status, text = ended(process)
        assert status == 130
        assert "interrupted: the results so far are kept\n" in text
        assert not Path(f"/proc/{begun.read_text().strip()}").exists()
    assert sorted(file.name for file in (tmp_path / "checks").glob("*.json")) == ["good.json"]
    way.touch()
    status, text = ended(start(table, "all"))
    assert status == 0
    assert text.startswith("check-good: passed already with ")
    assert good.read_text() == "once\n"


def test_wrong_names(start: Start) -> None:
    for words in ([], ["none"], ["all", "good"]):
        status, text = ended(start([row("good", "true")], *words))
        assert status == 2
        assert text.endswith("error: there are: all good\n")


def test_the_page(start: Start, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{check_results.BEGIN}\n{check_results.END}\nafter\n")
    table = [row("one", "echo figures: 7 '|' 8"), row("two", "true")]
    for _ in range(2):
        ended(start(table, "one"))
        status, text = ended(start(table, "--table", str(page)))
        assert status == 0
        assert re.fullmatch(r"check-one +passed .* 7 \| 8\ncheck-two +not run\n", text)
        found = page.read_text().splitlines()
        assert [found[0], found[1], *found[6:]] == [
            *("before", check_results.BEGIN, check_results.END, "after"),
        ]
        last = r"passed on [\d-]{10} with [0-9a-f]{7}, in 0 s"
        assert re.fullmatch(rf"\| `check-one` \| what one shows \| {last} \| 7 / 8 \|", found[4])
        assert found[5] == "| `check-two` | what two shows | not run |  |"


def test_the_page_keeps_what_has_no_result_here(start: Start, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    kept = "| `check-one` | what one shows | passed on 2026-01-01 | 3 of 3 |"
    page.write_text(f"{check_results.BEGIN}\n{kept}\n{check_results.END}\n")
    ended(start([row("one", "true")], "--table", str(page)))
    assert kept in page.read_text().splitlines()
