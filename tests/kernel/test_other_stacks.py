"""Functions that assembly calls on another stack, and comes back from, as Rust's psm does: their
calls return, and so do those that wait for them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SOURCE = Path(__file__).resolve().parents[1] / "programs/hazards/other_stack.c"
FORMS = ("LIKE_PSM", "BY_LEAVE", "IN_REGISTER", "ON_THE_OTHER", "BY_CELL", "")
AREAS = ("-DABOVE=1", "-DABOVE=0", "-DIN_FRAME")
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


def compile_program(into: Path, form: str, *flags: str) -> Path:
    made = into / "program"
    command = ["gcc", "-O1", "-w", "-mno-red-zone", "-pthread", *flags]
    subprocess.run(
        [*command, *([f"-DFORM={form}"] if form else []), SOURCE, "-o", made], check=True
    )
    return made


def check(lbtrace: Run, made: Path, *options: str) -> None:
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    out = made.with_name("out.jsonl")
    done = lbtrace(
        *("attach", "--binary", made, "--func", "f_*", "--quiet", *options),
        *("-o", out, "--force", "--", made),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    ends = Counter((call["name"], call["end"]) for call in calls)
    assert ends == CALLS
    for call in calls:
        if call["name"] == "f_leaf":
            (argument,) = call["args"]
            assert call["result"] == argument["value"] * 7 + 1


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("form", FORMS)
def test_calls_on_another_stack(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, form: str, area: str
) -> None:
    tool("gcc")
    made = compile_program(tmp_path, form, "-g", area)
    check(lbtrace, made)
    if form == FORMS[int(os.environ["LBTRACE_SEED"]) % len(FORMS)]:
        check(lbtrace, made, "--returns", "sites")
        check(lbtrace, compile_program(tmp_path, form, "-g", area, "-no-pie"))


def test_a_library_calls_on_another_stack(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Nobody traces that library."""
    tool("gcc")
    library = tmp_path / "libother.so"
    flags = ["-shared", "-fPIC", "-DLIBRARY", "-DFORM=LIKE_PSM"]
    subprocess.run(["gcc", *flags, SOURCE, "-o", library], check=True)
    links = [f"-L{tmp_path}", "-lother", f"-Wl,-rpath,{tmp_path}"]
    made = tmp_path / "program"
    command = ["gcc", "-g", "-O1", "-w", "-pthread", "-DUSES_LIBRARY", "-DABOVE=1", SOURCE]
    subprocess.run([*command, "-o", made, *links], check=True)
    check(lbtrace, made)
