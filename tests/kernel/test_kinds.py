"""Kinds of values against what the program itself says of each call."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Rust = Callable[[str, str], Path]
Compile = Callable[[str, list[str], str], Path]

ARM64 = os.uname().machine == "aarch64"
"""AAPCS64 passes long doubles in vector registers."""

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


def calls(lbtrace: Run, program: Path, out: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the program says of each call, beside what the trace says."""
    done = lbtrace(
        *("attach", "--func", "traced_*", "--depth", "1", "--format", "jsonl", "-o", out),
        *("--strict", "--", program),
    )
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    seen = [json.loads(line) for line in out.read_text().splitlines()]
    seen = [record for record in seen if record["type"] == "call"]
    assert [call["name"] for call in seen] == [call["name"] for call in reported]
    return list(zip(reported, seen, strict=True))


@pytest.mark.parametrize("flags", [["-O0"], ["-O2"]], ids="".join)
@pytest.mark.parametrize("compiler", ["g++", "clang++", "clang++ -stdlib=libc++"])
def test_cpp(
    lbtrace: Run, compiled: Compile, tmp_path: Path, compiler: str, flags: list[str]
) -> None:
    command = [*compiler.split(), "-std=c++17", "-g", *flags]
    name = f"kinds-{'-'.join(compiler.split())}{flags[0]}"
    program = compiled(name, command, (PROGRAMS / "kinds.cc").read_text())
    for reported, seen in calls(lbtrace, program, tmp_path / "out.jsonl"):
        values = [*(argument["value"] for argument in seen["args"]), seen["result"]]
        for value, truth in zip(values, [*reported["args"], reported["result"]], strict=True):
            unreadable = ARM64 and isinstance(truth, float) and value is None
            assert value == truth or unreadable, reported["name"]
        if reported["name"] == "traced_many":
            assert seen["length"] == 20


@pytest.mark.parametrize("level", ["0", "2"])
def test_rust(lbtrace: Run, rust: Rust, tmp_path: Path, level: str) -> None:
    for reported, seen in calls(lbtrace, rust("kinds.rs", level), tmp_path / "out.jsonl"):
        values = [argument["value"] for argument in seen["args"]]
        assert [*values, seen["result"]] == [*reported["args"], reported["args"][0]], reported[
            "name"
        ]


UNREAD = """
#define KEEP __asm__ volatile("" : : : "memory")
__attribute__((noinline)) int traced_number(int a, int unread, long b) { KEEP; return a + b; }
__attribute__((noinline)) int traced_text(const char *unread, int a) { KEEP; return a; }
int main(int argc, char **argv)
{
    return traced_number(argc, argc + 1, 3) + traced_text("text", argc + 4) - 9;
}
"""


@pytest.mark.parametrize("compiler", ["clang"])
def test_what_clang_does_not_pass(
    lbtrace: Run, compiled: Compile, tmp_path: Path, compiler: str
) -> None:
    """It leaves arguments out that the function does not read, even where that is exported."""
    program = compiled("unread", [compiler, "-g", "-O2"], UNREAD)
    done = lbtrace("attach", "--func", "traced_*", "--format", "jsonl", "--", program)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    shown = [[a["value"] for a in call["args"]] for call in seen if call["type"] == "call"]
    assert shown == [[1, None, 3], [None, 5]]


LEFT_OUT = """
struct Copied { int n; Copied(int n) : n(n) {} Copied(const Copied &o) : n(o.n) {} ~Copied() {} };
__attribute__((noinline)) Copied traced_unused(int a, Copied, int b) { return Copied(a + b); }
__attribute__((noinline)) Copied traced_used(int a, Copied c, int b) { return Copied(a + b + c.n); }
int main() { return traced_unused(1, 2, 3).n + traced_used(4, 5, 6).n - 19; }
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_parameters_that_debug_information_leaves_out(
    lbtrace: Run, compiled: Compile, tmp_path: Path, compiler: str
) -> None:
    """Clang's does, of objects that are passed by reference and not used."""
    program = compiled(f"left-out-{compiler}", [compiler, "-g", "-O0"], LEFT_OUT)
    done = lbtrace("attach", "--func", "traced_*", "--format", "jsonl", "--", program)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    calls = [call for call in seen if call["type"] == "call"]
    shown = [[a["value"] for a in call["args"]] for call in calls]
    unused = [1, {"n": 2}, 3]
    if compiler == "clang++" and len(shown[0]) == 2:
        unused = [None, None]
    assert shown == [unused, [4, {"n": 5}, 6]]
    assert [call["result"] for call in calls] == [{"n": 4}, {"n": 15}]
