"""Coroutines that exchange what is on one stack (greenlet): calls that wait share their frames."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

PYTHON = "/usr/bin/python3"

LIBRARY = """\
__attribute__((noinline)) long work(void (*back)(long), long tag) { back(tag); return tag * 3; }
"""

SCRIPT = """\
import ctypes, sys, greenlet, random, time
library = ctypes.CDLL(sys.argv[1])
Back = ctypes.CFUNCTYPE(None, ctypes.c_long)
library.work.argtypes, library.work.restype = [Back, ctypes.c_long], ctypes.c_long
chance = random.Random(int(sys.argv[2]))
main, waits = greenlet.getcurrent(), Back(lambda tag: main.switch())
goes_on = Back(lambda tag: None)
print("ready", flush=True)
sys.stdin.readline()

def run(first):
    for tag in range(first, first + 50):
        back = waits if tag % 2 else goes_on
        assert library.work(back, tag) == 3 * tag

lanes = [greenlet.greenlet(run) for _ in range(5)]
for number, lane in enumerate(lanes):
    lane.switch(100 * number)
while alive := [lane for lane in lanes if not lane.dead]:
    chance.choice(alive).switch()
print("done")
"""

EXPECTED = {100 * lane + n for lane in range(5) for n in range(50)}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "work.c").write_text(LIBRARY)
    (tmp_path / "lanes.py").write_text(SCRIPT)
    library = tmp_path / "libwork.so"
    command = ["gcc", "-g", "-O1", "-shared", "-fPIC", tmp_path / "work.c", "-o", library]
    subprocess.run(command, check=True)
    return [PYTHON, str(tmp_path / "lanes.py"), str(library)]


def test_a_command(words: list[str], tmp_path: Path) -> None:
    output, traced = tmp_path / "out.jsonl", ("--binary", words[-1], "--func", "work")
    command = [sys.executable, "-m", "lbtrace", "attach", *traced, "-o", output, "--", *words, "1"]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(output.read_text())


@pytest.mark.parametrize("target", ["the process", "every process"])
def test_a_running_process(words: list[str], tmp_path: Path, target: str) -> None:
    output = tmp_path / "out.jsonl"
    run = subprocess.Popen([*words, "3"], stdin=-1, stdout=-1, text=True)
    assert run.stdin is not None
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    of = ["--pid", str(run.pid)] if target == "the process" else []
    trace = subprocess.Popen(
        [sys.executable, "-m", "lbtrace", "attach", *of, "--binary", words[-1], "--func", "work"]
        + ["--format", "jsonl", "-o", output],
        stderr=-1,
        text=True,
    )
    assert trace.stderr is not None
    said = ""
    while "tracing 1 function" not in said:
        said = trace.stderr.readline()
        assert said
    run.stdin.write("\n")
    run.stdin.close()
    assert run.wait() == 0
    trace.send_signal(2)
    trace.wait()
    check(output.read_text(), nothing_is_sure=target == "every process")


def check(output: str, *, nothing_is_sure: bool = False) -> None:
    """No result is another call's, and no call counts as left, for all return."""
    calls = [c for c in map(json.loads, output.splitlines()) if c["type"] == "call"]
    tags = [tag_of(call) for call in calls]
    assert set(tags) == EXPECTED
    assert len(tags) == len(EXPECTED)
    ends = Counter((call["end"], tag_of(call) % 2) for call in calls)
    assert all(call["result"] == 3 * tag_of(call) for call in calls if call["end"] == "returned")
    assert {end for end, _ in ends} <= {"returned", "open"}
    if not nothing_is_sure:
        assert ends == {("returned", 0): len(tags) / 2, ("open", 1): len(tags) / 2}
        assert {call["depth"] for call in calls} == {0}


def tag_of(call: dict[str, Any]) -> int:
    (tag,) = (argument["value"] for argument in call["args"] if argument["name"] == "tag")
    return int(tag)
