"""Programs that leave calls by assembly of their own, with symbols or without: they print the same
traced as untraced, and no end is made up."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SOURCE = Path(__file__).resolve().parents[1] / "programs/hazards/own_switches.c"
BUILDS = {"named": ["-DNAMED"], "bare": [], "stripped": ["-s", "-rdynamic"]}
LEAVES = {
    "jump": "mov 48(%rdi), %rsp; jmp *56(%rdi)",
    "return": "mov 48(%rdi), %rsp; push 56(%rdi); ret",
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("how", LEAVES)
def test_longjmp_of_the_programs_own(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, how: str, build: str
) -> None:
    tool("gcc")
    made, out = tmp_path / "program", tmp_path / "out.jsonl"
    flags = ["-O2", "-w", *BUILDS[build], f'-DLEAVE="{LEAVES[how]}"']
    subprocess.run(["gcc", *flags, SOURCE, "-o", made], check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace("attach", "--func", "f_*", "--quiet", "-o", out, "--", made)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    if build == "stripped":  # no symbol tells that its code may be probed
        assert {c["end"] for c in calls if c["name"] == "f_deep"} <= {"unwound", "open"}
    else:
        check_left_calls(calls, watched=True)


def check_left_calls(calls: list[dict[str, Any]], *, watched: bool) -> None:
    """That all calls are on one stack, as deep as they are, and only those end unwound that were
    left."""
    assert not [call for call in calls if "stack" in call]
    if watched:
        ends = {(call["name"], call["depth"] if call["name"] != "f_deep" else -1, call["end"])
                for call in calls}  # fmt: skip
        assert ends == {
            *(("f_after", 0, "returned"), ("f_try", 1, "returned"), ("f_deep", -1, "unwound")),
            *(("f_leaf", 1, "returned"), ("f_leaf", 2, "returned")),
        }


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O2 -fno-omit-frame-pointer"])
def test_longjmp_that_compilers_make(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, level: str
) -> None:
    """In a function with an array of variable length, of threads, too."""
    tool("gcc")
    made, out = tmp_path / "program", tmp_path / "out.jsonl"
    source = SOURCE.with_name("built_in_longjmp.c")
    subprocess.run(["gcc", *level.split(), "-w", "-pthread", source, "-o", made], check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    for returns in ("auto", "none"):
        done = lbtrace(
            *("attach", "--binary", made, "--func", "f_*", "--quiet", "--returns", returns),
            *("-o", out, "--force", "--", made),
        )
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        records = [json.loads(line) for line in out.read_text().splitlines()]
        calls = [record for record in records if record["type"] == "call"]
        check_left_calls(calls, watched=returns == "auto")
