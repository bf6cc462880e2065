"""Coroutines whose stack pointer is not kept where they switch, but a little above: their
calls return."""

from __future__ import annotations

import json
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
HAZARDS = Path(__file__).resolve().parents[1] / "programs/hazards"
RESUMES = {
    "pointed": "lea 8(%rsp), %rcx; mov 8(%rcx), %rbp; mov (%rcx), %rsp",
    "by rsp": "mov 16(%rsp), %rbp; mov 8(%rsp), %rsp",
    "by rbp": "mov 16(%rsp), %rax; push %rbp; mov %rsp, %rbp; mov 16(%rbp), %rsp; mov %rax, %rbp",
}


def ends_of(lbtrace: Run, made: Path) -> Counter[tuple[str, str]]:
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    out = made.with_name("out.jsonl")
    done = lbtrace(
        *("attach", "--binary", made, "--func", "f_*", "--quiet"),
        *("-o", out, "--force", "--", made),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    return Counter((each["name"], each["end"]) for each in records if each["type"] == "call")


@pytest.mark.parametrize("way", RESUMES)
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_contexts_that_are_passed_by_value(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, way: str, level: str
) -> None:
    tool("gcc")
    made = tmp_path / "program"
    flags = [level, "-g", "-w", f'-DRESUME="{RESUMES[way]}"']
    subprocess.run(["gcc", *flags, HAZARDS / "by_value.c", "-o", made], check=True)
    ends = ends_of(lbtrace, made)
    assert not [end for _, end in ends if end not in ("returned", "open")]
    for name in ("f_outer", "f_inner"):
        assert ends[name, "open"] == 4  # those that wait in the end
    assert ends["f_inner", "returned"] == 76
    assert ends["f_outer", "returned"] == 36
    assert ends["f_leaf", "returned"] == 156
