"""Where a trace is written: nothing is harmed, nothing is left over, and the counts are
true."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fib(programs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(programs / "fib", tmp_path / "fib"))


def test_the_traced_program_is_not_overwritten(lbtrace: Run, fib: Path) -> None:
    before = fib.read_bytes()
    (fib.parent / "link.lbt").hardlink_to(fib)
    for path in (fib, fib.parent / "link.lbt"):
        words = ("--func", "fib", "--format", "lbt", "--force", "-o", path, "--", fib, 3)
        done = lbtrace("attach", *words)
        assert done.returncode == 2
        assert "itself" in done.stderr
    assert fib.read_bytes() == before


@pytest.mark.parametrize("output", [(), ("-o", "-"), ("-o", "/dev/stdout")])
def test_a_capture_on_standard_output_holds_nothing_else(
    lbtrace: Run, fib: Path, output: tuple[str, ...]
) -> None:
    """The command prints to standard error then."""
    capture = fib.parent / "out.lbt"
    with capture.open("wb") as stdout:
        words = ("attach", "--func", "fib", "--format", "lbt", *output, "--", fib, 3)
        done = lbtrace(*words, capture_output=False, stdout=stdout, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert "fib(3) = 2" in done.stderr.splitlines()
    assert "goes to standard error: the capture is on standard output" in done.stderr
    with (fib.parent / "out.parquet").open("wb") as stdout:
        words = ("count", "--func", "fib", "--format", "parquet", *output, "--", fib, 3)
        done = lbtrace(*words, capture_output=False, stdout=stdout, stderr=subprocess.PIPE)
    assert "goes to standard error: the table is on standard output" in done.stderr
    exported = lbtrace("export", capture)
    assert "5 calls in 1 thread of 1 process, nothing lost" in exported.stderr


def test_what_could_be_traced_as_well_is_said_while_tracing(lbtrace: Run, fib: Path) -> None:
    """Those who read the capture cannot trace it any more."""
    capture = fib.parent / "all.lbt"
    said = lbtrace("attach", "--func", "*", "-o", capture, "--", fib, 3).stderr
    assert "functions of start-up code, which '*' does not take" in said
    for command in ("report", "export", "count"):
        assert "start-up code" not in lbtrace(command, capture).stderr


def test_a_failed_try_leaves_nothing(lbtrace: Run, fib: Path) -> None:
    output = fib.parent / "x.lbt"
    words = ("attach", "--func", "fib", "--binary", fib, "-o", output)
    assert lbtrace(*words, "--", fib.parent / "nothing").returncode != 0
    assert lbtrace(*words, "--ring-size", "5000", "--", fib, 3).returncode == 2
    assert [path.name for path in fib.parent.iterdir()] == ["fib"]
    done = lbtrace(*words, "--", fib, 3)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


def test_fifo(lbtrace: Run, start: Callable[..., object], fib: Path) -> None:
    fifo = fib.parent / "fifo"
    os.mkfifo(fifo)
    words = ("attach", "--func", "fib", "--format", "racket", "-o", fifo, "--", fib, 2)
    done = lbtrace(*words, timeout=60)
    assert done.returncode == 1
    assert "has no reader" in done.stderr
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
    for _ in range(100):  # until cat has opened it
        done = lbtrace(*words, timeout=60)
        if done.returncode == 0:
            break
    assert reader.communicate(timeout=60)[0].startswith(">(fib 2)")


def test_a_capture_shows_as_much_as_the_trace_would(lbtrace: Run, fib: Path) -> None:
    capture = fib.parent / "shallow.lbt"
    words = ("attach", "--func", "fib", "--max-depth", 2, "--format", "jsonl")
    live = lbtrace(*words, "-o", "/dev/stderr", "--quiet", "--", fib, 4)
    assert lbtrace(*words[:-2], "-o", capture, "--", fib, 4).returncode == 0
    exported = lbtrace("export", capture, "--format", "jsonl")
    assert exported.stdout.count('"type":"call"') == live.stderr.count('"type":"call"') == 3


@pytest.mark.parametrize("events", [1, 6, 7, 5000])
def test_max_events_ends_with_true_counts(lbtrace: Run, fib: Path, events: int) -> None:
    output = fib.parent / "x.lbt"
    words = ("--func", "fib", "--max-events", events, "-o", output, "--", fib, 16)
    done = lbtrace("attach", *words)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()[0].removeprefix("lbtrace: ")
    exported = lbtrace("export", output, "--format", "racket")
    assert exported.stderr.splitlines()[0] == said
    assert said.startswith(f"{exported.stdout.count('(fib '):,} call")


@pytest.mark.parametrize("options", [(), ("--returns", "uretprobe", "--unsafe")])
def test_summaries_say_what_the_capture_holds(
    lbtrace: Run, programs: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    for name, *arguments in (("deep", 100), ("crew",)):
        output = tmp_path / f"{name}.lbt"
        words = ("--func", "*", *options, "-o", output, "--", programs / name)
        words += tuple(arguments)
        done = lbtrace("attach", *words)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if "lost" in line]
        exported = lbtrace("export", output, "-o", tmp_path / f"{name}.jsonl", "--force")
        reported = [line for line in exported.stderr.splitlines() if "lost" in line]
        assert said[0].removeprefix("lbtrace: ") == reported[0], name


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("mine")
    other.rename(path)


def empty(path: Path) -> None:
    path.write_text("")


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("mine")


@pytest.mark.parametrize("name", ["run.lbt", "run.jsonl"])
@pytest.mark.parametrize("harm", [remove, replace, empty, append])
def test_an_output_that_is_lost_meanwhile(
    start_lbtrace: Callable[..., Any],
    programs: Path,
    tmp_path: Path,
    eventually: Callable[..., None],
    name: str,
    harm: Callable[[Path], None],
) -> None:
    output = tmp_path / name
    words = ("attach", "--func", "tick", "-o", output, "--kill", "--", programs / "loop", 100)
    tracing = start_lbtrace(*words)
    eventually(lambda: output.exists() and output.stat().st_size > 4096)
    harm(output)
    time.sleep(0.5)
    tracing.process.send_signal(signal.SIGINT)
    status, _, error = tracing.finish()
    assert status == 1, error
    assert f"{output} was " in error
    assert "nothing lost" not in error
    if harm is replace:
        assert output.read_text() == "mine"
