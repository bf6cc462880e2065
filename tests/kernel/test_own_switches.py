"""Programs that leave calls, or switch stacks, by assembly of their own, with symbols or without:
they print the same traced as untraced, however returns are seen, and no end is made up."""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stack_ways import ALL_WAYS, GOES_ON, LEAVES, SHIFTS

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SOURCE = Path(__file__).resolve().parents[1] / "programs/hazards/own_switches.c"
BUILDS = {"named": ["-DNAMED"], "bare": [], "stripped": ["-s", "-rdynamic"]}
RETURNS = ("auto", "none")
COROUTINES = [
    f"CHANGE={text}; {then}"
    for way, text in ALL_WAYS.items()
    for how, then in GOES_ON.items()
    if way not in SHIFTS or how == "straight"
]
JUMPS = [f"LEAVE={text}" for text in LEAVES.values()]
EVERY = [
    (how, build, returns)
    for how in (*COROUTINES, *JUMPS)
    for build in BUILDS
    for returns in dict.fromkeys(RETURNS)
]
CHOOSE = random.Random(os.environ["LBTRACE_SEED"])
EVERYDAY = [
    *((how, CHOOSE.choice([*BUILDS]), CHOOSE.choice(RETURNS)) for how in CHOOSE.sample(JUMPS, 3)),
    *((h, CHOOSE.choice([*BUILDS]), CHOOSE.choice(RETURNS)) for h in CHOOSE.sample(COROUTINES, 7)),
]


def check(lbtrace: Run, into: Path, how: str, build: str, returns: str) -> None:
    name, _, text = how.partition("=")
    made, out = into / "program", into / "out.jsonl"
    flags = ["-O2", "-w", *BUILDS[build], f'-D{name}="{text}"']
    subprocess.run(["gcc", *flags, SOURCE, "-o", made], check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--binary", made, "--func", "f_*", "--quiet", "--returns", returns),
        *("-o", out, "--force", "--", made),
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    ends = {(call["name"], call["end"]) for call in calls}
    if returns != "none":  # nothing that was left is said to have returned
        assert ("f_deep", "returned") not in ends
    if name == "LEAVE" and build == "stripped":  # no symbol tells that its code may be probed
        assert {end for called, end in ends if called == "f_deep"} <= {"unwound", "open"}
    elif name == "LEAVE":
        check_left_calls(calls, watched=returns == "auto")


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


@pytest.mark.parametrize(("how", "build", "returns"), EVERYDAY)
def test_switches_of_the_programs_own(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, how: str, build: str, returns: str
) -> None:
    tool("gcc")
    check(lbtrace, tmp_path, how, build, returns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "build", "returns"),
    EVERY if os.environ.get("LBTRACE_WHOLE") else CHOOSE.sample(EVERY, 60),
)
def test_more_switches_of_the_programs_own(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, how: str, build: str, returns: str
) -> None:
    tool("gcc")
    check(lbtrace, tmp_path, how, build, returns)
