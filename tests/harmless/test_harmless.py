"""A few of the comparisons of `compare`, others with each commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harmless.offspring import descendants
from tests.harmless.results import Log

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


def test_a_log_is_gone_on_from(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = Log(file)
    log.add("same", "git: libz.so.1 --returns auto", "1,200 calls, 3.0 s")
    log.add("given up", "hugo: all 9 files --returns none", "after 240 s")
    log.add("different", "sh: bash --returns none", "status 0 became 1: ''")
    again = Log(file)
    assert again.has("git: libz.so.1 --returns auto")
    assert again.has("hugo: all 9 files --returns none")
    assert not again.has("sh: bash --returns none"), "it is run again when mended"
    assert not again.has("git: all 3 files --returns auto")
    again.add("same", "sh: bash --returns none", "0 calls, 1.0 s")
    assert Log(file).summary() == (
        "3 programs: 2 traced runs (1,200 calls; none in 1) the same as untraced,"
        " 0 refused, 1 given up, 0 different"
    )


def test_what_a_child_starts_is_found() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=-1) as shell:
        assert shell.stdout
        sleep = int(shell.stdout.readline())
        assert {shell.pid, sleep} <= set(descendants())
        os.kill(sleep, signal.SIGKILL)
    assert not {shell.pid, sleep} & set(descendants())
