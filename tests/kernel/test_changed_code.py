"""No probe is placed where the kernel would execute something else than the program does.

A breakpoint executes a copy of the instruction that lies in the file. That is another one
where the loader or the program itself has changed the code, and a few do something else
where they are single-stepped.
"""

from __future__ import annotations

import platform
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]

SOURCES = Path(__file__).resolve().parents[1] / "programs/changed"
AMD64 = platform.machine() == "x86_64"
BUILDS = (
    [
        "gcc -O2 flags.c",
        "clang -O1 flags.c",
        "gcc -O2 -fno-pic -mcmodel=large -pie -Wl,-z,notext hooked.c",
    ]
    if AMD64
    else ["gcc -O2 hooked.c"]
)


def build(into: Path, how: str) -> Path:
    """The program that a line of `BUILDS` makes."""
    words = [str(SOURCES / w) if w.endswith((".c", ".S")) else w for w in how.split()]
    subprocess.run([*words, "-w", "-o", into / "program"], check=True)
    return into / "program"


@pytest.mark.parametrize("how", BUILDS)
def test_a_copy_of_the_instruction_would_do_something_else(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, how: str
) -> None:
    tool(how.split(maxsplit=1)[0])
    program = build(tmp_path, how)
    plain = subprocess.run([program], capture_output=True, text=True, input="a", check=False)
    traced = lbtrace(
        *("attach", "--func", "*", "--format", "jsonl"),
        *("-o", tmp_path / "out.jsonl", "--", program),
        input="a",
    )
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout), traced.stderr
    assert "lbtrace: " in traced.stderr
    if "notext" in how:
        assert "changed the code in memory" in traced.stderr


@pytest.mark.parametrize("every", [False, True])
def test_hooks_are_left_alone(
    start: Start, start_lbtrace: Start, tmp_path: Path, every: bool
) -> None:
    """A program calls through its hook before, in and after a trace."""
    hooked = start(build(tmp_path, "gcc -O2 hooked.c"), stdin=subprocess.PIPE)
    hooked.wait_for("ready", "stdout")
    which = ("--binary", tmp_path / "program") if every else ("--pid", hooked.pid)
    for _ in range(2):  # breakpoints of the first trace are no change
        tracer = start_lbtrace("attach", "--func", "*", *which, stdin=subprocess.DEVNULL)
        tracer.wait_for("changed the code in memory")
        tracer.wait_for("tracing")
        said = [step(hooked), step(hooked)]
        tracer.process.send_signal(signal.SIGINT)
        status, out, error = tracer.finish()
        assert (status, "target" in out, out.count("other(")) == (0, False, 100), error
        said.append(step(hooked))
        assert said[2] - said[1] == said[1] - said[0] == 3725
    assert hooked.process.poll() is None


def test_processes_are_read_whatever_the_names_of_their_files(
    lbtrace: Run, start: Start, tmp_path: Path
) -> None:
    """A name holds what other programs take for the end of a line."""
    program = build(tmp_path, "gcc -O2 hooked.c").rename(tmp_path / "a\r\v\u2028b")
    start(program, stdin=subprocess.PIPE).wait_for("ready", "stdout")
    done = lbtrace("attach", "--dry-run", "--func", "*", "--binary", program)
    assert done.returncode == 0, done.stderr
    assert "changed the code in memory" in done.stderr


@pytest.mark.skipif(not AMD64, reason="the program is for x86-64")
@pytest.mark.parametrize("nops", ["", "-pg -mfentry -mnop-mcount"])
def test_probes_of_other_tracers_are_no_change(
    start: Start, start_lbtrace: Start, tmp_path: Path, nops: str
) -> None:
    how = f"gcc -O2 -fno-pie -no-pie {nops} flags.c"
    program = build(tmp_path, how)
    tracers = []
    for _ in range(2):
        process = start(program, stdin=subprocess.PIPE, cwd=tmp_path)  # -pg leaves a file
        tracer = start_lbtrace("attach", "--func", "work", "--func", "main", "--binary", program)
        tracers.append(tracer)
        tracer.wait_for("tracing 2 functions")
        process.process.communicate("a")
        assert process.process.returncode == 0
    for tracer in tracers:
        tracer.process.send_signal(signal.SIGINT)
        status, out, error = tracer.finish()
        assert status == 0
        assert out.count("work(") >= 50, error


def step(hooked: Any) -> int:
    """What a round of the program says."""
    hooked.process.stdin.write("a")
    hooked.process.stdin.flush()
    return int(hooked.process.stdout.readline())
