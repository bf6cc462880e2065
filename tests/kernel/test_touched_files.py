"""Traced files whose times change: whether the trace goes on depends on their content."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbtrace.plan import Selection, make_plan

Start = Callable[..., Any]
Way = Callable[[Path], None]

PAUSE = 0.4
"""Seconds in which lbtrace has looked at the files."""


def touch(path: Path) -> None:
    path.touch()


def set_back(path: Path) -> None:
    os.utime(path, (1, 1))


def write_again(path: Path) -> None:
    """What it holds already, into the pages that are there."""
    with open(path, "r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(data)


def copy_again(path: Path) -> None:
    """The same, but first it is empty, and processes have no breakpoints any more."""
    path.write_bytes(path.read_bytes())


def patch(path: Path) -> None:
    """Write another byte into the traced function."""
    [function] = make_plan(str(path), Selection(("fib",))).functions
    with open(path, "r+b") as file:
        file.seek(function.offset + function.size - 1)
        file.write(b"\x90")


@pytest.fixture
def fib(programs: Path, tmp_path: Path) -> Path:
    """A program of its own."""
    return Path(shutil.copy(programs / "fib", tmp_path / "fib"))


@pytest.mark.parametrize("way", [touch, set_back, write_again])
def test_times_alone_end_no_trace(start_lbtrace: Start, fib: Path, way: Way) -> None:
    tracer = start_lbtrace("attach", "--func", "fib", "--binary", fib)
    tracer.wait_for("Ctrl-C ends")
    for _ in range(3):
        time.sleep(PAUSE)
        subprocess.run([fib, "5"], check=True, capture_output=True)
        way(fib)
    time.sleep(PAUSE)
    tracer.process.send_signal(signal.SIGINT)
    status, _, error = tracer.finish()
    assert status == 0, error
    assert "overwritten" not in error
    assert "45 calls in 3 threads of 3 processes, nothing lost" in error


def test_a_running_program_is_touched(
    start: Start, start_lbtrace: Start, programs: Path, tmp_path: Path
) -> None:
    path = shutil.copy(programs / "crew", tmp_path / "crew")
    crew = start(path, stdin=-1)
    crew.wait_for("ready", "stdout")
    tracer = start_lbtrace("attach", "--func", "work", "--pid", crew.pid)
    tracer.wait_for("Ctrl-C ends")
    time.sleep(PAUSE)
    touch(Path(path))
    time.sleep(PAUSE)
    assert crew.process.communicate("\n")[0] == "41\n"
    status, _, error = tracer.finish()
    assert status == 0, error
    assert "41 calls in 5 threads of 1 process, nothing lost" in error


@pytest.mark.parametrize("way", [copy_again, patch])
def test_a_file_of_the_same_length_may_be_another(
    start_lbtrace: Start, fib: Path, way: Way
) -> None:
    tracer = start_lbtrace("attach", "--func", "fib", "--binary", fib)
    tracer.wait_for("Ctrl-C ends")
    time.sleep(PAUSE)
    way(fib)
    tracer.wait_for("was overwritten in place: the trace ends")
    assert tracer.finish()[0] == 1


def test_touched_before_it_is_overwritten(start_lbtrace: Start, fib: Path) -> None:
    tracer = start_lbtrace("attach", "--func", "fib", "--binary", fib)
    tracer.wait_for("Ctrl-C ends")
    time.sleep(PAUSE)
    touch(fib)
    patch(fib)
    tracer.wait_for("was overwritten in place: the trace ends")
    assert tracer.finish()[0] == 1
