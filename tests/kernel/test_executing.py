"""System calls that execute a program, which wait for their results: nothing is left then of the
stack and the memory of the program that made them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """\
import os, sys, threading

def run(words, in_thread):
    if not (child := os.fork()):
        def execute():
            try:
                os.execv(words[0], words)
            except OSError:
                os._exit(9)
        thread = threading.Thread(target=execute)
        thread.start() if in_thread else execute()
        thread.join()
    print(child, not os.waitpid(child, 0)[1], *words, sep="\\t", flush=True)

run([sys.executable, "-S", "-c", "pass"], False)
run(["/nothing", "-x"], False)
run([sys.executable, "-S", "-c", "", "of a thread"], True)
"""

Run = Callable[..., Any]


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return ["--", sys.executable, "-S", str(file)]


def said(text: str) -> list[tuple[int, bool, list[str]]]:
    """The number of each process, whether it has executed the program, and its arguments."""
    lines = [line.split("\t") for line in text.splitlines() if "\t" in line]
    return [(int(pid), went == "True", words) for pid, went, *words in lines]


def test_by_result(lbtrace: Run, program: list[str], tmp_path: Path) -> None:
    out = tmp_path / "calls.jsonl"
    for where, result in (("retval == 0", True), ("retval < 0", False)):
        done = lbtrace(
            "attach", "--syscall", "execve", "--where", where, "-o", out, "--force", *program
        )
        assert "nothing lost" in done.stderr
        rows = map(json.loads, out.read_text().splitlines())
        seen = [row for row in rows if row["type"] == "call"]
        told = [(pid, words) for pid, went, words in said(done.stdout) if went == result]
        values = [(row["pid"], [each["value"] for each in row["args"]]) for row in seen]
        # the command itself is executed first
        assert [(pid, argv, file) for pid, (file, argv, _) in values[result:]] == [
            (pid, words, words[0]) for pid, words in told
        ]
        assert {row["end"] for row in seen} == {"returned"}
        assert {row["result"] for row in seen} == ({0} if result else {"-ENOENT"})
        assert all(row["duration"] > 0 for row in seen)


def test_counted(lbtrace: Run, program: list[str]) -> None:
    done = lbtrace("latency", "--syscall", "execve", *program)
    assert "lbtrace: 4 calls counted, nothing lost" in done.stderr
    words = ("--syscall", "execve", "--where", "retval == 0", "--by", "filename")
    done = lbtrace("count", *words, *program)
    counts = {row.split()[1]: int(row.split()[0]) for row in done.stdout.splitlines()[-1:]}
    assert counts == {sys.executable: 3}
