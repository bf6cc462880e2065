"""A short time of fuzzing with coverage for each reader; `make fuzz` takes longer."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import native
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 12
HARNESSES = ("elf", "frames", "pclntab", "debug", "capture", "expressions", "names")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(platform.machine() != "x86_64", reason="clang")]


def run(*words: object, cwd: Path) -> None:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=20 * SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("harness", HARNESSES)
def test_only_errors_of_lbtrace_come_out(tmp_path, harness):
    run(sys.executable, HERE / "fuzz.py", harness, SECONDS, tmp_path / "corpus", cwd=tmp_path)


@pytest.mark.parametrize("name", native.FUZZERS)
def test_nothing_is_read_outside(tmp_path, name):
    fuzzer = native.FUZZERS[name](tmp_path)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    kept = [d for d in [HERE / "corpus" / name] if d.is_dir()]
    run(fuzzer, f"-max_total_time={SECONDS}", "-timeout=10", corpus, *kept, cwd=tmp_path)
