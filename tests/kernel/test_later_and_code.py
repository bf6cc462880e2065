"""Markers in files that are loaded while the trace runs, beside functions, lines and places of the
start, against a program that logs what it does."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import lbtrace
from lbtrace import Options
from tests.made_markers import make_library

pytestmark = pytest.mark.host

SOURCE = Path(__file__).resolve().parents[1] / "programs" / "plugins.c"
LINE = 1 + SOURCE.read_text().splitlines().index(
    "\t\tsale[n](number + n, -(int)(number + n)); /* a line of its own */"
)
OPERANDS = {"sale": "8@%rdi -4@%rsi"}

Row: TypeAlias = tuple[int, int, str, int]
"""A process, a depth, a name, and a number."""


class Shop:
    """The program, two plugins with the marker ``shop:sale``, and the log."""

    def __init__(self, place: Path) -> None:
        self.program = str(place / "plugins")
        command = ["gcc", "-g", "-O1", "-o", self.program, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        self.one = make_library(place / "one.so", "shop", **OPERANDS)
        self.two = make_library(place / "two.so", "shop", **OPERANDS, text="8@%rdi")
        self._log = place / "log"

    def command(self, *words: str) -> list[str]:
        return [self.program, str(self._log), *words]

    def logged(self, *names: str) -> list[Row]:
        """What the program did, in order."""
        found = []
        for line in self._log.read_text().splitlines():
            pid, depth, name, number = line.split()
            if not names or name in names:
                found.append((int(pid), int(depth), name, int(number)))
        return found

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """The program, waiting until its input ends."""
        with subprocess.Popen(
            self.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout
            assert program.stdout.readline() == "ready\n"
            try:
                yield program
                assert program.wait(60) == 0
            finally:
                program.kill()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("shop"))


def go(program: subprocess.Popen[str]) -> None:
    """Let the program continue."""
    assert program.stdin
    program.stdin.close()


def rows(calls: list[lbtrace.Call]) -> list[Row]:
    """What was recorded, in the order in which it began."""
    for call in calls:
        if call.name == "shop:sale":
            assert call["arg0"] == -call["arg1"]
    return [
        (call.pid, call.depth, call.name, call.args[0].value)
        for call in sorted(calls, key=lambda call: call.start)
    ]


def relative(found: list[Row]) -> list[Row]:
    """Without the depths."""
    return [(pid, 0, name, number) for pid, _, name, number in found]


def test_beside_functions(shop: Shop, mode: lbtrace.Mode) -> None:
    with lbtrace.trace(
        command=shop.command(shop.one, shop.two, "fork"),
        functions=["inner", "outer"],
        usdt="shop:*",
        options=Options(mode=mode),
    ) as session:
        assert [function.name for function in session.plan.functions] == ["inner", "outer"]
        calls = list(session.calls())
        assert session.losses().total == 0
        assert "shop:sale, shop:text: traced from now on" in " ".join(session.notes)
    assert rows(calls) == shop.logged()
    assert len({call.pid for call in calls}) == 2
    assert {call.end for call in calls if call.name != "shop:sale"} == {"returned"}
    assert {call.binary for call in calls} == {shop.program, shop.one, shop.two}


def test_beside_lines_and_places(shop: Shop, mode: lbtrace.Mode) -> None:
    """And beside inlined functions; each sale follows its line."""
    symbols = subprocess.run(["nm", shop.program], capture_output=True, text=True, check=True)
    address = next(line.split()[0] for line in symbols.stdout.splitlines() if "T inner" in line)
    with lbtrace.trace(
        command=shop.command(shop.one),
        lines=f"plugins.c:{LINE}",
        places=f"{shop.program}:0x{address}",
        source="plugins.c",
        inlined=True,
        usdt="shop:sale",
        options=Options(mode=mode),
    ) as session:
        calls = list(session.calls())
    calls.sort(key=lambda call: call.start)
    by_name = Counter(call.name for call in calls)
    assert by_name[f"plugins:0x{int(address, 16):x}"] == len(shop.logged("inner")) == 100
    assert by_name["inner"] == by_name["shop:sale"] == by_name[f"plugins.c:{LINE}"] == 100
    assert by_name["is_enabled"]  # a copy
    points = [call for call in calls if call.name in ("shop:sale", f"plugins.c:{LINE}")]
    assert [call.name for call in points] == [f"plugins.c:{LINE}", "shop:sale"] * 100
    sales = [call["arg0"] for call in points[1::2]]
    assert sales == [number for *_, number in shop.logged("shop:sale")]


@pytest.mark.parametrize("follow", [False, True])
def test_files_that_are_named(shop: Shop, mode: lbtrace.Mode, follow: bool) -> None:
    """Probes are in them before they are loaded: not one hit is missed."""
    with (
        shop.running("ready", shop.one) as program,
        lbtrace.trace(
            pid=program.pid,
            binary=[shop.program, shop.one],
            functions="inner",
            usdt="shop:sale",
            follow=follow,
            options=Options(mode=mode),
        ) as session,
    ):
        go(program)
        calls = list(session.calls())
    assert relative(rows(calls)) == relative(shop.logged("inner", "shop:sale"))


def test_functions_of_files_that_are_loaded_later(shop: Shop, lbtrace: Any) -> None:
    """They are not waited for; the error says what to do."""
    words = ("attach", "--func", "sale", "--usdt", "shop:*", "--")
    done = lbtrace(*words, *shop.command(shop.one))
    assert done.returncode == 2
    assert "sale: matches no function of" in done.stderr
    assert "for one of a file that is loaded later, add --binary FILE" in done.stderr
    words = ("attach", "--func", "sale", "--binary", shop.one, "--", *shop.command(shop.one))
    assert "100 calls in 1 thread" in lbtrace(*words).stderr
