"""Pairs of markers in two files, of which one or both are loaded while the trace runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace import Options
from tests.made_markers import make_library

pytestmark = pytest.mark.host

PROGRAM = """
import ctypes, os, sys, time

def load(path):
    made = ctypes.CDLL(path)
    made.stubs = [getattr(made, n) for n in ("begin", "end") if hasattr(made, n)]
    return made

def wait(made):
    "Until all of its markers are traced, and for some time."
    end = time.monotonic() + 30
    def enabled(f):
        return ctypes.cast(f, ctypes.POINTER(ctypes.c_ubyte))[0] & 0x90 != 0x90
    while not all(map(enabled, made.stubs)) and time.monotonic() < end:
        time.sleep(0.001)
    assert all(map(enabled, made.stubs))
    time.sleep(1)

def do(function, *numbers):
    for number in numbers:
        function(ctypes.c_uint64(number), ctypes.c_uint64(7 * number))
"""

DEFINITIONS = """provider shop {{
    probe begin(long id, long when);
    probe end(long id, long sum);
    #pragma lbtrace pair begin end by id {how}
}};"""


class Libraries:
    """A library with each marker, and one with both."""

    def __init__(self, place: Path) -> None:
        operands = "8@%rdi 8@%rsi"
        self.begin = make_library(place / "begin.so", "shop", begin=operands)
        self.end = make_library(place / "end.so", "shop", end=operands)
        self.providers = {}
        for how in ("nests", "crosses"):
            self.providers[how] = place / f"definitions{how}.d"
            self.providers[how].write_text(DEFINITIONS.format(how=how))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    return Libraries(tmp_path_factory.mktemp("pairs"))


def seen(calls: list[lbtrace.Call]) -> list[tuple[Any, ...]]:
    """The name, number, end and result of calls and points, in the order in which they began."""
    assert all((call.duration is None) == (call.end != "returned") for call in calls)
    return [
        (call.name, call["id"], call.end, call.result)
        for call in sorted(calls, key=lambda call: call.start)
    ]


def points(name: str, *numbers: int) -> list[tuple[Any, ...]]:
    return [(f"shop:{name}", number, "point", None) for number in numbers]


def returned(*numbers: int) -> list[tuple[Any, ...]]:
    return [("shop:begin", number, "returned", 7 * number) for number in numbers]


@pytest.mark.parametrize("how", ["nests", "crosses"])
def test_both_come_later(made: Libraries, mode: lbtrace.Mode, how: str) -> None:
    """The end first, or the beginning."""
    body = f"""
first, second = [({made.begin!r}, {made.end!r}), ({made.end!r}, {made.begin!r})][int(sys.argv[1])]
first = load(first); wait(first)
for stub in first.stubs: do(stub, 1, 2)
second = load(second); wait(second)
made = first if hasattr(first, "begin") else second, first if hasattr(first, "end") else second
do(made[0].begin, 3, 4); do(made[1].end, *map(int, sys.argv[2].split()))
do(made[0].begin, 5)
if not os.fork():
    do(made[0].begin, 6); do(made[1].end, 6); os._exit(0)
os.wait()
"""
    order = "3 4" if how == "crosses" else "4 3"
    for end_first in (0, 1):
        with lbtrace.trace(
            command=[sys.executable, "-c", PROGRAM + body, str(end_first), order],
            usdt="shop:*",
            providers=made.providers[how],
            options=Options(mode=mode),
        ) as session:
            calls = list(session.calls())
            assert session.losses().total == 0
        assert seen(calls) == [
            *points("end" if end_first else "begin", 1, 2),
            *returned(3, 4),
            ("shop:begin", 5, "open", None),
            *returned(6),
        ]


@pytest.mark.parametrize("early", ["begin", "end"])
def test_one_is_there_at_the_start(made: Libraries, mode: lbtrace.Mode, early: str) -> None:
    body = """
first = load(sys.argv[1])
print("ready", flush=True); sys.stdin.readline()
for stub in first.stubs: do(stub, 1, 2)
second = load(sys.argv[2]); wait(second)
made = first if hasattr(first, "begin") else second, first if hasattr(first, "end") else second
do(made[0].begin, 3, 4); do(made[1].end, 4, 3, 9)
"""
    files = [made.begin, made.end] if early == "begin" else [made.end, made.begin]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + body, *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == b"ready\n"
        with lbtrace.trace(
            pid=program.pid,
            functions="/[Mm]ain$/",
            usdt="shop:*",
            providers=made.providers["nests"],
            options=Options(mode=mode),
        ) as session:
            program.stdin.close()
            calls = list(session.calls())
        assert program.wait() == 0
    assert seen(calls) == [*points(early, 1, 2), *returned(3, 4), *points("end", 9)]


def test_what_is_not_asked_for_is_not_waited_for(made: Libraries) -> None:
    """Without its end the beginning is a point, as it is with values of the user's choice."""
    body = f"""
first = load({made.begin!r}); wait(first)
second = load({made.end!r})
if sys.argv[1:]: wait(second)
do(first.begin, 1); do(second.end, 1); do(first.begin, 2)
"""
    command = [sys.executable, "-c", PROGRAM + body]
    common: Any = {"providers": made.providers["nests"]}
    with lbtrace.trace(command=command, usdt="shop:begin", **common) as session:
        assert seen(list(session.calls())) == points("begin", 1, 2)
    with lbtrace.trace(command=[*command, "both"], usdt="shop:*", arg="id", **common) as session:
        calls = list(session.calls())
    assert seen(calls) == [*points("begin", 1), *points("end", 1), *points("begin", 2)]


def test_captures(made: Libraries, tmp_path: Path, lbtrace: Any) -> None:
    """They show calls and points as they were live."""
    body = f"""
first = load({made.begin!r}); wait(first); do(first.begin, 1)
second = load({made.end!r}); wait(second); do(first.begin, 2); do(second.end, 2)
"""
    capture = tmp_path / "x.lbt"
    words = ["attach", "--usdt", "shop:*", "--provider", made.providers["nests"], "-o", capture]
    done = lbtrace(*words, "--strict", "--", sys.executable, "-c", PROGRAM + body)
    assert done.returncode == 0, done.stderr
    assert "1 call and 1 point in 1 thread" in done.stderr
    tree = lbtrace("export", capture, "--format", "tree").stdout
    assert tree.count("· shop:begin id=1") == 1
    assert tree.count("shop:begin(id=2, when=14) = 14") == 1
