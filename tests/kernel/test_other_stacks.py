"""Calls on other stacks than those of threads, compared with what the program says: of functions
that assembly calls there, as Rust's psm does, and of coroutines however they switch. Where stacks
share a mapping, calls that wait may end open."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Any]

HAZARDS = Path(__file__).resolve().parents[1] / "programs/hazards"
X86_64 = platform.machine() == "x86_64"
ROUNDS, DEEPEST = 40, 5
_DEEP = sum(n % DEEPEST + 1 for n in range(ROUNDS))
_LEFT = ROUNDS // 2
"""Calls that longjmp leaves."""
CALLS = {
    **{("f_outer", "returned"): ROUNDS, ("f_once", "returned"): ROUNDS},
    **{("f_deep", "returned"): _DEEP, ("f_inner", "returned"): _DEEP},
    **{("f_try", "returned"): ROUNDS, ("f_left", "returned"): ROUNDS - _LEFT},
    **{("f_left", "open"): _LEFT, ("f_leaf", "returned"): 3 * ROUNDS + _LEFT + 2 * _DEEP},
}
"""How many calls the program makes, and how they end."""


def read(out: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, out.read_text().splitlines()) if r["type"] == "call"]


@pytest.mark.host
@pytest.mark.skipif(not X86_64, reason="x86-64 assembly")
@pytest.mark.parametrize("form", ["LIKE_PSM", "library"])
def test_calls_on_another_stack(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, form: str
) -> None:
    tool("gcc")
    source, made, out = HAZARDS / "other_stack.c", tmp_path / "program", tmp_path / "out.jsonl"
    flags = [f"-DFORM={form}"] if form else []
    if form == "library":
        library = tmp_path / "libother.so"
        build = ["gcc", "-shared", "-fPIC", "-DLIBRARY", "-DFORM=LIKE_PSM", source, "-o", library]
        subprocess.run(build, check=True)
        flags = ["-DUSES_LIBRARY", f"-L{tmp_path}", "-lother", f"-Wl,-rpath,{tmp_path}"]
    build = ["gcc", "-g", "-O1", "-w", "-mno-red-zone", "-pthread", source, "-o", made, *flags]
    subprocess.run(build, check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace("attach", "--func", "f_*", "--quiet", "-o", out, "--", made)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    calls = read(out)
    assert Counter((call["name"], call["end"]) for call in calls) == CALLS
    for call in calls:
        if call["name"] == "f_leaf":
            (argument,) = call["args"]
            assert call["result"] == argument["value"] * 7 + 1


class Form(NamedTuple):
    """How coroutines switch, and where their stacks are; whether these are ``reported`` apart."""

    flags: tuple[str, ...]
    reported: bool

    def build(self, into: Path) -> Path:
        made = into / "coroutines"
        command = ["gcc", "-g", "-O1", "-w", HAZARDS / "coroutines.c", "-o", made, *self.flags]
        subprocess.run(command, check=True)
        return made


FORMS = {
    "contexts": Form(("-DCONTEXTS", "-DON_HEAP"), reported=True),
    "static": Form(("-DCONTEXTS", "-DON_HEAP", "-static"), reported=True),
    "signals on heap": Form(("-DSIGNALS", "-DON_HEAP"), reported=False),
}
if X86_64:
    FORMS["fcontext"] = Form(("-DON_HEAP",), reported=True)
COUNT = sum(3 + me for me in range(4))


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return FORMS[request.param]


def check(calls: list[dict[str, Any]], *, reported: bool) -> None:
    """That no call is said to be left, and that all are right where stacks are distinguished."""
    assert {call["end"] for call in calls} <= ({"returned"} if reported else {"returned", "open"})
    for call in calls:
        me, depth = (argument["value"] for argument in call["args"])
        if call["end"] == "returned":
            assert call["result"] == 100 + me * depth
        if reported:
            assert call["depth"] == 2 + me - depth


@pytest.mark.parametrize("every", [False, True])
def test_coroutines_of_a_command(
    lbtrace: Run, start_lbtrace: Start, tmp_path: Path, form: Form, every: bool
) -> None:
    program, out = form.build(tmp_path), tmp_path / "calls.jsonl"
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    if every:
        tracer = start_lbtrace("attach", "--binary", program, "--func", "work", "-o", out)
        tracer.wait_for("Ctrl-C ends")
        subprocess.run([program], stdout=subprocess.DEVNULL, check=True)
        tracer.process.terminate()
        status, _, error = tracer.finish()
        assert status == 0, error
    else:
        done = lbtrace("attach", "--func", "work", "-o", out, "--", program)
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    calls = read(out)
    assert len(calls) == COUNT
    check(calls, reported=form.reported)


def test_coroutines_of_a_running_process(start_lbtrace: Start, tmp_path: Path, form: Form) -> None:
    """Those that it set up before are distinguished by their mappings alone."""
    program, out = form.build(tmp_path), tmp_path / "calls.jsonl"
    running = subprocess.Popen([program, "100000"], stdout=subprocess.DEVNULL)
    try:
        tracer = start_lbtrace("attach", "--pid", running.pid, "--func", "work", "-o", out)
        tracer.wait_for("Ctrl-C ends")
        time.sleep(0.2)
        running.kill()
        running.wait()
        tracer.process.terminate()
        status, _, error = tracer.finish()
    finally:
        running.kill()
        running.wait()
    assert status == 0, error
    calls = read(out)
    assert len(calls) > 20
    check(calls, reported=False)


def test_within_is_refused(lbtrace: Run, tmp_path: Path) -> None:
    program = FORMS["contexts"].build(tmp_path)
    done = lbtrace("attach", "--func", "work", "--within", "work", "--", program)
    assert done.returncode == 2
    assert "several stacks in one mapping" in done.stderr
