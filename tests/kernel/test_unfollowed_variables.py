"""gcc names one register of a parameter for all of a function where it has not followed how
variables move (``-fno-var-tracking``, ``register`` without optimisation, functions that are too
large for it): the one to which it moves the parameter, or meant to."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="it is about x86-64's registers"),
]

ROOT = Path(__file__).resolve().parents[2]
UNFOLLOWED = ("-fno-var-tracking", "--param=max-vartrack-size=1")
UNKNOWN = "how it is passed is unknown"

Compile = Callable[[str, list[str], str], Path]
Traced = Callable[[Path, str], list[dict[str, Any]]]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

MOVED = r"""
struct pair { long a, b; };
volatile long start;
__attribute__((noinline)) long on_stack(long a, long unread, long c, long d, long e, long f, long x,
                                        long y)
{ return a * 3 + c * 5 + d * 7 + e * 11 + f * 13 + x * 17 + y * 19; }
__attribute__((noinline)) long after_pair(int a, unsigned b, int unread, long d, struct pair s,
                                          long x, long *p)
{ return a + b * 3u + d + x * *p; }
__attribute__((noinline)) long kept(register long a, register long b, register int c)
{ return a * b + c; }
int main(void)
{
    long v = 7;
    struct pair s = {8, 9};
    for (int i = 0; i < 3; i++) {
        start += on_stack(1, 2, 3, 4, 5, 6, 70 + i, 80);
        start += after_pair(10 + i, 20, 30, 40, s, 60, &v);
        start += kept(70 + i, 20, 30);
    }
    return 0;
}
"""

MICROSOFTS = r"""
long start = 70, shared;
__attribute__((noinline, ms_abi)) long apart(long a, long b) { return a - b; }
__attribute__((noinline)) long shift(int a) { return shared >> a; }
int main(void) { return apart(start, 7) + shift(start) != 63; }
"""


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tests/kernel/test_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(call: dict[str, Any]) -> list[Any]:
    return [argument["value"] for argument in call["args"]]


@pytest.mark.parametrize("option", UNFOLLOWED)
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_arguments_are_where_the_caller_put_them(
    compiled: Compile, traced: Traced, level: str, option: str
) -> None:
    program = compiled("moved", ["gcc", "-g", "-w", level, option], MOVED)
    calls = {name: [] for name in ("on_stack", "after_pair", "kept")}  # type: dict[str, Any]
    for call in traced(program, "/on_stack|after_pair|kept/"):
        calls[call["name"]].append(values(call))
    assert calls["on_stack"] == [[1, 2, 3, 4, 5, 6, 70 + n, 80] for n in range(3)]
    # Unoptimised, the first is in rcx, where Microsoft's convention has it.
    kept = [[70 + n, 20, 30] for n in range(3)]
    assert calls["kept"] == (kept if level != "-O0" else [[None] * 3] * 3)
    pair = {"a": 8, "b": 9}
    given = [call[:6] for call in calls["after_pair"]]
    assert given == [[10 + n, 20, 30, 40, pair, 60] for n in range(3)]
    assert all(call[6].startswith("0x7ff") for call in calls["after_pair"])


@pytest.mark.parametrize("option", UNFOLLOWED)
@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_what_remains_of_parameters(tmp_path: Path, level: str, option: str) -> None:
    """Copies of functions to which other things are passed than they declare."""
    optimised = _module("optimised_signatures")
    counts: Counter[str] = Counter()
    program = optimised.build(3, 100, ["gcc", "-g", level, option], tmp_path)
    wrong = optimised.compare(program, [sys.executable, "-m", "lbtrace"], tmp_path, counts)
    assert not wrong
    assert counts["right"] > 0.05 * counts["tried"], counts


@pytest.mark.slow
@pytest.mark.parametrize("option", UNFOLLOWED)
def test_random_signatures(compiled: Compile, lbtrace: Run, tmp_path: Path, option: str) -> None:
    signatures = _module("signatures")
    program = compiled("random", ["gcc", "-g", "-O2", "-w", option], signatures.source(4, 100))
    output = tmp_path / "out.jsonl"
    words = ("--func", "traced_*", "--format", "jsonl", "-o", output, "--", program)
    done = lbtrace("attach", *words)
    assert done.returncode == 0, done.stderr
    records = map(json.loads, output.read_text().splitlines())
    calls = [record for record in records if record["type"] == "call"]
    agreed = 0
    for call, truth in zip(calls, map(json.loads, done.stdout.splitlines()), strict=True):
        assert call["name"] == truth["name"]
        for shown, reported in zip(values(call), truth["args"], strict=True):
            agreed += signatures.agree(shown, reported, call["name"])
    assert agreed > 300


@pytest.mark.parametrize("option", ["-fvar-tracking", *UNFOLLOWED])
def test_microsofts_convention_is_known_or_in_doubt(
    compiled: Compile, traced: Traced, option: str
) -> None:
    program = compiled("microsofts", ["gcc", "-g", "-O2", option], MICROSOFTS)
    apart, shift = traced(program, "/apart|shift/")
    assert values(shift) == [70]
    assert apart["result"] == 63
    if option == "-fno-var-tracking":
        assert {argument["unreadable"] for argument in apart["args"]} == {UNKNOWN}
    else:
        assert values(apart) == [70, 7]
