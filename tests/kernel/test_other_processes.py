"""Processes outside the request live as they do without a trace, with uretprobes as well: they run
code that is traced in others, a private copy of the C library."""

from __future__ import annotations

import mmap
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

SOURCES = Path(__file__).resolve().parents[1] / "programs/other_processes"
LIBC = Path(f"/lib/{platform.machine()}-linux-gnu/libc.so.6")
SORTS = 20
UNSAFE = ("--returns", "uretprobe", "--unsafe")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The private copy of the C library."""
    made = tmp_path / "lib/libc.so.6"
    made.parent.mkdir()
    shutil.copy(LIBC, made)
    return made


@pytest.fixture
def environment(library: Path) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}


@pytest.fixture
def sorter(tmp_path: Path) -> list[str]:
    """Sorts as often as it is asked, once it reads a line."""
    made = tmp_path / "sorter"
    subprocess.run(["gcc", "-O1", SOURCES / "sorter.c", "-o", made], check=True)
    return [str(made), str(SORTS)]


@pytest.mark.parametrize("way", ["command", "pid"])
def test_who_was_not_asked_for_has_no_breakpoints(
    start_lbtrace: Callable[..., Any], environment: dict[str, str], sorter: list[str],
    library: Path, mode: str, way: str,
) -> None:  # fmt: skip
    """Private mappings are where breakpoints would be, if they were in every process."""
    words: list[object] = ["attach", "--binary", library, "--func", "qsort"]
    options: dict[str, Any] = {"env": environment, "stdin": subprocess.PIPE}
    words += ["--mode", mode, "--format", "jsonl"]
    if way == "command":
        tracer = start_lbtrace(*words, "--", *sorter, **options)
        target = tracer.process
        tracer.wait_for("ready", "stdout")
    else:
        target = subprocess.Popen(sorter, stdout=-1, text=True, **options)
        tracer = start_lbtrace(*words, "--pid", target.pid)
        tracer.wait_for("Ctrl-C ends")
    with library.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        assert mapped[:] == file.read()
    target.stdin.write("\n")
    target.stdin.flush()
    status, out, error = tracer.finish()
    assert status == 0, error
    assert out.count('"name":"qsort"') == SORTS
    assert "not shown" not in error
    if way == "pid":
        target.communicate()


def test_a_function_is_traced_in_the_library_of_each(
    start: Callable[..., Any], start_lbtrace: Callable[..., Any], environment: dict[str, str],
    sorter: list[str],
) -> None:  # fmt: skip
    """One has loaded the private copy, the other the C library of the system."""
    both = [start(*sorter, stdin=-1), start(*sorter, stdin=-1, env=environment)]
    for each in both:
        each.wait_for("ready", "stdout")
    pids = ",".join(str(each.pid) for each in both)
    tracer = start_lbtrace("attach", "--pid", pids, "--func", "qsort", "--format", "jsonl")
    tracer.wait_for("Ctrl-C ends")
    for each in both:
        each.process.communicate("\n")
    status, out, error = tracer.finish()
    assert status == 0, error
    for each in both:
        assert out.count(f'"pid":{each.pid},"tid":{each.pid},"depth"') == SORTS


def test_uretprobes_are_in_the_process_that_was_asked_for_alone(
    lbtrace: Callable[..., Any], start_lbtrace: Callable[..., Any], environment: dict[str, str],
    sorter: list[str], library: Path, modes: list[str], tmp_path: Path,
) -> None:  # fmt: skip
    """Another one throws through the same function meanwhile; without a session, whose program
    refuses the hook there, uretprobes are refused."""
    words = ("attach", *UNSAFE, "--binary", library, "--func", "qsort")
    refused = lbtrace(*words, "--mode", "plain", "--dry-run", "--", "sh", "-c", "true")
    assert refused.returncode == 2
    assert "return addresses would be replaced in every process" in refused.stderr
    if "session" not in modes:
        return
    throws = tmp_path / "throws"
    subprocess.run(["g++", "-O1", SOURCES / "throws.cc", "-o", throws], check=True)
    target = subprocess.Popen(sorter, stdin=-1, stdout=-1, text=True, env=environment)
    tracer = start_lbtrace(*words, "--pid", target.pid, "--format", "jsonl")
    tracer.wait_for("Ctrl-C ends")
    subprocess.run([throws], env=environment, check=True)
    target.communicate("\n")
    status, out, error = tracer.finish()
    assert status == 0, error
    assert out.count('"name":"qsort"') == SORTS


def test_processes_that_a_command_forks_against_expectation_are_reported(
    lbtrace: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "a.c").write_text(
        "int traced(int n) { return n + 1; }\n"
        "int main(void) { int pid;\n"
        '__asm__ volatile("syscall" : "=a"(pid) : "a"(57) : "rcx", "r11", "memory");\n'
        "return traced(pid ? 0 : 1) == 9; }\n"
    )
    subprocess.run(["gcc", "-O0", tmp_path / "a.c", "-o", tmp_path / "a"], check=True)
    done = lbtrace("attach", "--func", "traced", "--", tmp_path / "a")
    assert done.returncode == 0
    assert "1 child process was not traced" in done.stderr
