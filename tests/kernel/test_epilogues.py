"""Calls whose return is seen where the epilogue begins are those seen at `ret`, with the same
results: two traces of one run are compared."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("exits", ROOT / "tests/programs/exits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls_of(path: Path, pids: set[int] | None = None) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(errors="replace").splitlines()]
    calls = [r for r in rows if r["type"] == "call" and (pids is None or r["pid"] in pids)]
    assert not [row for row in rows if row["type"] == "loss"]
    return sorted(calls, key=lambda row: (row["tid"], row["start"], row["depth"]))


def both(where: Path, command: Sequence[object], *options: object) -> tuple[int, Counter[str]]:
    """Trace a run in both ways at once; how many calls that were, and how they ended."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [*map(str, ("attach", "--returns", "sites", "--force", "--format", "jsonl", *options))]
    plain, sites = where / "plain.jsonl", where / "sites.jsonl"
    first = [sys.executable, str(ROOT / "tests/plain_returns.py"), *words, "-o", str(plain)]
    with subprocess.Popen(first, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "tracing" in line:
                break
        second = [sys.executable, "-m", "lbtrace", *words, "-o", str(sites), "--"]
        given = {"env": env, "stdin": subprocess.DEVNULL, "capture_output": True}
        subprocess.run([*second, *map(str, command)], check=True, **given)  # type: ignore[call-overload]
        process.send_signal(signal.SIGINT)
        process.communicate()
    found = calls_of(sites)
    expected = calls_of(plain, {row["pid"] for row in found})
    keys = ("name", "args", "result", "depth", "end")
    assert [[r.get(k) for k in keys] for r in found] == [[r.get(k) for k in keys] for r in expected]
    return len(found), Counter(row["end"] for row in found)


def compile(dice: random.Random, where: Path) -> Path:
    source = where / "exits.c"
    source.write_text(_writer().write(dice))
    compiler = dice.choice([c for c in ("gcc", "clang") if shutil.which(c)])
    flags = [
        dice.choice(["-O0", "-O1", "-O2", "-O3", "-Os"]),
        dice.choice(["-g", "-g0"]),
        dice.choice(["-fstack-protector-all", "-fstack-protector-strong", "-fno-stack-protector"]),
        dice.choice(["-fcf-protection=full", "-fcf-protection=none"]),
        dice.choice(["-fomit-frame-pointer", "-fno-omit-frame-pointer"]),
    ]
    program = where / "exits"
    subprocess.run([compiler, *flags, "-w", source, "-o", program], check=True)
    return program


@pytest.mark.parametrize(
    "number", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 30))]
)
def test_random_functions(number: int, tmp_path: Path) -> None:
    dice = random.Random(f"{os.environ['LBTRACE_SEED']} {number}")
    program = compile(dice, tmp_path)
    many, ends = both(tmp_path, [program], "--binary", program, "--func", "traced_*")
    assert many
    assert ends["returned"]


LUA = """
local made = {}
for i = 1, 100 do made[i] = tostring(i * i) .. i % 3 end
table.sort(made)
print(#table.concat(made), pcall(error, "x"), string.format("%5.1f", 2.5))
local next = coroutine.wrap(function() coroutine.yield(1) end)
next()
"""


@pytest.mark.slow
def test_lua(tmp_path: Path, tool: Callable[[str], str]) -> None:
    (tmp_path / "it.lua").write_text(LUA)
    lua = tool("lua5.4")
    many, ends = both(tmp_path, [lua, tmp_path / "it.lua"], "--binary", lua, "--func", "*")
    assert many > 1000
    assert ends["unwound"]  # error() leaves calls by longjmp


@pytest.mark.slow
def test_redis(tmp_path: Path, tool: Callable[[str], str]) -> None:
    redis = tool("redis-server")
    many, _ = both(tmp_path, [redis, "--version"], "--binary", redis, "--func", "*")
    assert many > 1000
