"""Processes outside the request live as they do without a trace, with uretprobes as well.

They run code that is traced in others, a private copy of the C library, and each does
what a replaced return address would kill it of: the program of a session refuses the hook there.
"""

from __future__ import annotations

import json
import mmap
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

SOURCES = Path(__file__).resolve().parents[1] / "programs/other_processes"
LIBC = Path(f"/lib/{platform.machine()}-linux-gnu/libc.so.6")
FUNCTIONS = ("qsort", "qsort_r", "getenv", "dlsym")
SORTS = 20

UNSAFE = ("--returns", "uretprobe", "--unsafe")
WAYS = ("shell", "command", "pid", "follow", "binary")


class OtherProcesses:
    """Programs with the library they share, and what each does untraced."""

    def __init__(self, here: Path, tool: Callable[[str], str]) -> None:
        self.here = here
        self.pids: set[int] = set()
        self.library = here / "lib/libc.so.6"
        self.library.parent.mkdir()
        shutil.copy(LIBC, self.library)
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "STRANGER": "strange",
        }
        for name in ("sorter", "altstack", "contexts", "asks"):
            self._build(tool("gcc"), "-O1", "-pthread", SOURCES / f"{name}.c", "-o", name)
        self._build(tool("gcc"), "-shared", "-fPIC", SOURCES / "interposer.c", "-o", "preload.so")
        self._build(tool("g++"), "-O1", SOURCES / "throws.cc", "-o", "throws")
        shutil.copy(SOURCES / "compacts.ml", here)
        self._build(tool("ocamlopt"), "compacts.ml", "-o", "compacts")
        self.commands: dict[str, Sequence[object]] = {
            "C++ exceptions": [here / "throws"],
            "signal stack": [here / "altstack"],
            "signal stack that disarms itself": [here / "altstack", "disarm"],
            "contexts": [here / "contexts"],
            "interposer": ["env", f"LD_PRELOAD={here / 'preload.so'}", here / "asks"],
            "Ruby": [tool("ruby"), SOURCES / "fibers.rb"],
            "greenlet": ["/usr/bin/python3", SOURCES / "greenlets.py"],
            "OCaml": [here / "compacts"],
        }
        self.untraced = self.run()
        assert {status for status, _, _ in self.untraced.values()} == {0}, self.untraced

    def run(self) -> dict[str, tuple[int, str, str]]:
        """The status and output of each."""
        running = {name: self.start(command) for name, command in self.commands.items()}
        self.pids |= {process.pid for process in running.values()}
        ended = {name: process.communicate(timeout=60) for name, process in running.items()}
        return {name: (running[name].returncode, *ended[name]) for name in running}

    def start(self, command: Sequence[object], **options: Any) -> subprocess.Popen[str]:
        """Starts one with the private library."""
        options = {"stdout": -1, "stderr": -1, "text": True, "env": self.environment} | options
        return subprocess.Popen(list(map(str, command)), **options)

    def _build(self, *command: object) -> None:
        subprocess.run(list(map(str, command)), check=True, cwd=self.here, capture_output=True)


@pytest.fixture(scope="session")
def other_processes(
    tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]
) -> OtherProcesses:
    return OtherProcesses(tmp_path_factory.mktemp("other_processes"), tool)


@pytest.mark.parametrize("way", WAYS)
def test_who_was_not_asked_for_lives_as_without_a_trace(
    other_processes: OtherProcesses, modes: list[str], start_lbtrace: Callable[..., Any],
    tmp_path: Path, way: str,
) -> None:  # fmt: skip
    sorter = [other_processes.here / "sorter", SORTS]
    words: list[object] = [
        "attach",
        "-o",
        tmp_path / "out.jsonl",
        "--binary",
        other_processes.library,
    ]
    words += [word for name in FUNCTIONS for word in ("--func", name)]
    words += UNSAFE if way != "binary" and "session" in modes else ()
    if way in ("shell", "command", "binary"):
        words += ["--binary", other_processes.here / "compacts", "--func", "camlCompacts__keep*"]
    options = {"env": other_processes.environment, "stdin": subprocess.PIPE}
    commanded = way in ("shell", "command")
    if commanded:
        # A shell may start others, so its trace reaches every process.
        command = ["sh", "-c", '"$@"; exit', "sh", *sorter] if way == "shell" else sorter
        tracer = start_lbtrace(*words, "--quiet", "--", *command, **options)
        target = tracer.process
        tracer.wait_for("ready", "stdout")
    else:
        target = other_processes.start(sorter, stdin=subprocess.PIPE)
        words += ["--pid", target.pid] if way != "binary" else []
        tracer = start_lbtrace(*words, *["--follow"] * (way == "follow"))
        tracer.wait_for("Ctrl-C ends")
    assert other_processes.run() == other_processes.untraced
    target.stdin.write("\n")
    target.stdin.flush()
    if commanded:
        assert tracer.finish()[0] == 0
    else:
        assert target.wait(60) == 0
        if way == "binary":
            tracer.process.send_signal(2)
        assert tracer.finish()[0] == 0
        target.communicate()
    seen = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    seen = [record for record in seen if record["type"] == "call"]
    if way != "binary":
        assert other_processes.pids.isdisjoint(call["pid"] for call in seen)
    mine = [call for call in seen if call["pid"] == target.pid or commanded]
    # Some builds of the library jump from qsort to qsort_r.
    ends = [call["end"] for call in mine if call["name"] == "qsort"]
    assert len(ends) == SORTS
    assert set(ends) <= {"returned", "tail"}


def test_uretprobes_in_other_processes_are_refused(
    other_processes: OtherProcesses, lbtrace: Callable[..., Any]
) -> None:
    """Without a session nothing keeps them out."""
    words = (
        "attach",
        "--mode",
        "plain",
        *UNSAFE,
        "--binary",
        other_processes.library,
        "--func",
        "qsort",
    )
    done = lbtrace(*words, "--dry-run", "--", "sh", "-c", "true")
    assert done.returncode == 2
    assert "return addresses would be replaced in every process" in done.stderr


@pytest.mark.parametrize("way", ["command", "pid"])
def test_who_was_not_asked_for_has_no_breakpoints(
    other_processes: OtherProcesses, start_lbtrace: Callable[..., Any], mode: str, way: str
) -> None:
    """Private mappings are where breakpoints would be, if they were in every process."""
    words: list[object] = ["attach", "--binary", other_processes.library, "--func", "qsort"]
    sorter = [other_processes.here / "sorter", SORTS]
    options = {"env": other_processes.environment, "stdin": subprocess.PIPE}
    words += ["--mode", mode, "--format", "jsonl"]
    if way == "command":
        tracer = start_lbtrace(*words, "--", *sorter, **options)
        target = tracer.process
        tracer.wait_for("ready", "stdout")
    else:
        target = other_processes.start(sorter, stdin=subprocess.PIPE)
        tracer = start_lbtrace(*words, "--pid", target.pid)
        tracer.wait_for("Ctrl-C ends")
    with other_processes.library.open("rb") as file:
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


ALTSTACK = ("main", "run", "compare", "handler", "inner")


def _check_altstack(text: str, *, known: bool = True) -> None:
    """Each comparison is interrupted by a handler, which calls twice and on a stack above. The
    kernel forgets that stack meanwhile with SS_AUTODISARM: then it is not ``known`` whose it is."""
    seen = [json.loads(line) for line in text.splitlines()]
    seen = [record for record in seen if record["type"] == "call"]
    counts = {name: sum(call["name"] == name for call in seen) for name in ALTSTACK}
    assert counts["handler"] == counts["compare"] > 0
    assert counts["inner"] == 2 * counts["handler"]
    if known:
        (outer,) = {call["depth"] for call in seen if call["name"] == "compare"}
        assert {call["end"] for call in seen if call["name"] == "compare"} == {"returned"}
        depths = {(call["name"], call["depth"]) for call in seen if call["name"] in ALTSTACK[3:]}
        assert depths == {("handler", outer + 1), ("inner", outer + 2)}
    assert {c["end"] for c in seen if c["name"] in ALTSTACK[2:]} <= {"returned", "open"}


@pytest.mark.parametrize("kind", ["keep", "disarm"])
def test_a_handler_on_a_stack_above_its_thread_harms_no_return(
    other_processes: OtherProcesses,
    lbtrace: Callable[..., Any],
    tmp_path: Path,
    mode: str,
    kind: str,
) -> None:
    words = [word for name in ALTSTACK for word in ("--func", name)]
    options = ("--mode", mode, "-o", tmp_path / "out.jsonl", "--quiet")
    words += UNSAFE if mode == "session" else ()
    done = lbtrace("attach", *words, *options, "--", other_processes.here / "altstack", kind)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sorted 1 2 3\n"
    _check_altstack((tmp_path / "out.jsonl").read_text(), known=kind == "keep")


def test_handlers_are_distinguished_where_their_stack_was_set_up_before_the_trace(
    other_processes: OtherProcesses, start_lbtrace: Callable[..., Any], tmp_path: Path, mode: str
) -> None:
    target = other_processes.start([other_processes.here / "altstack", "keep", "wait"], stdin=-1)
    assert target.stdout is not None
    assert target.stdout.readline() == "ready\n"
    words = [word for name in ALTSTACK for word in ("--func", name)]
    options = ("--pid", target.pid, "--mode", mode, "-o", tmp_path / "out.jsonl")
    tracer = start_lbtrace("attach", *words, *options)
    tracer.wait_for("Ctrl-C ends")
    assert target.communicate("\n", timeout=60)[0] == "sorted 1 2 3\n"
    assert target.returncode == 0
    assert tracer.finish()[0] == 0
    _check_altstack((tmp_path / "out.jsonl").read_text())
