"""Small files that are made to cost much (bombs.py): work and memory have bounds that hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import bombs
import pytest

MEMORY = 200 << 10
"""KiB that a command may take."""

PATIENCE = 4.0
"""Seconds of processor time: twice what it may take on a machine that is not busy."""

COMMANDS = (
    ("list", "--sites"),
    ("attach", "--dry-run", "--func", "*", "--force"),
)

MEASURED = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
seconds = usage.ru_utime + usage.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss]))
"""
"""A small process starts the command: what a large one had in memory would count as its own."""

EVERYDAY = ("shared_string", "empty_notes", "cxx_names", "eh_frame", "cycles", "zlib_bomb")


def ended(command: tuple[str, ...], path: Path) -> str:
    """What a command writes as errors, which must be lbtrace's own."""
    words = [sys.executable, "-m", "lbtrace", *command, "--binary", str(path)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    status, seconds, kib = json.loads(done.stdout)
    assert status in (0, 1), (status, done.stderr)
    assert "Traceback" not in done.stderr
    assert seconds < PATIENCE
    assert kib < MEMORY
    return done.stderr


def check(directory: Path, name: str, seed: int) -> None:
    path = directory / name
    path.write_bytes(bombs.BOMBS[name](Random(f"{name} {seed}")))
    for command in COMMANDS:
        ended(command, path)


@pytest.mark.parametrize("name", EVERYDAY)
def test_bounds_hold(tmp_path, name):
    check(tmp_path, name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", bombs.BOMBS)
def test_bounds_hold_for_every_kind(tmp_path, name):
    check(tmp_path, name, int(os.environ["LBTRACE_SEED"]))


def test_what_is_left_is_usable(tmp_path):
    """The names that are no bombs are read, and one that is too long is shown in part."""
    path = tmp_path / "program"
    long = b"_Z1f" + b"P" * 200_000 + b"i"
    path.write_bytes(bombs.named(bombs.cxx_bomb(36), b"_Z4goodi", long, b"plain"))
    listed = subprocess.run(
        [sys.executable, "-m", "lbtrace", "list", "--binary", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "  good" in listed
    assert "  plain" in listed
    assert bombs.cxx_bomb(36).decode() in listed
    assert "P\N{HORIZONTAL ELLIPSIS}" in listed
