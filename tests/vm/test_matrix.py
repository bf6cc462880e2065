"""The matrix's command line: what is wrong is said in a line, and nothing is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MATRIX = [sys.executable, str(Path(__file__).parent / "matrix.py")]


def start(out: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MATRIX, *words],
        env={**os.environ, "LBTRACE_VM_OUT": str(out)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("kernels", "wheel", "reported", "status"),
    [
        ("6.12 5.11", "a-1-py3-none-any.whl", "no such kernel: 5.11 (there are 5.10 ", 2),
        ("", "a-1-py3-none-any.whl", "--kernels names none (there are 5.10 ", 2),
        ("6.12", "none.whl", "none.whl does not exist", 2),
    ],
)
def test_wrong_words(tmp_path: Path, kernels: str, wheel: str, reported: str, status: int) -> None:
    (tmp_path / "a-1-py3-none-any.whl").touch()
    run = start(tmp_path / "out", "--kernels", kernels, "--wheel", str(tmp_path / wheel))
    text, _ = run.communicate(timeout=60)
    assert run.returncode == status
    assert reported in text
    assert not (tmp_path / "out/results").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "a-1-py3-none-any.whl").touch()
    run = start(tmp_path, "--kernels", "6.12", "--wheel", str(tmp_path / "a-1-py3-none-any.whl"))
    while not (tmp_path / "apt").exists() and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(number)
    text, _ = run.communicate(timeout=60)
    assert (run.returncode, text) == (130, "interrupted: all machines are switched off\n")


def test_full_disk(tmp_path: Path) -> None:
    (tmp_path / "a-1-py3-none-any.whl").touch()
    shell = f"mount -t tmpfs -o size=4k none {tmp_path}/out && exec {' '.join(MATRIX)}"
    shell += f" --kernels 6.12 --wheel {tmp_path}/a-1-py3-none-any.whl"
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", shell],
        env={**os.environ, "LBTRACE_VM_OUT": str(tmp_path / "out")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("no machine can be made ready: ")
    assert "No space left on device" in done.stdout
    assert done.stderr == ""
