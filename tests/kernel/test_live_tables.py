"""Tables on a terminal: they renew themselves, and keys change how they are shown."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SOURCE = r"""
#include <unistd.h>
__attribute__((noipa)) void alpha(long n) { __asm__ volatile("" ::: "memory"); }
__attribute__((noipa)) void beta(long n) { __asm__ volatile("" ::: "memory"); }
__attribute__((noipa)) void gamma_(long n) { usleep(200); __asm__ volatile("" ::: "memory"); }
int main(void)
{
	for (long i = 0;; i++) {
		alpha(i);
		if (i % 2)
			beta(i);
		if (i % 4 == 0)
			gamma_(i);
		usleep(500);
	}
}
"""
NAMES = ("alpha", "beta", "gamma_")


class Terminal:
    """A terminal of 8 lines that lbtrace reads and writes."""

    def __init__(self) -> None:
        self.main, self.other = pty.openpty()
        fcntl.ioctl(self.other, termios.TIOCSWINSZ, struct.pack("4H", 8, 120, 0, 0))
        self.written = ""
        self.seen = 0
        """Frames before the last key."""

    def frames(self) -> list[list[str]]:
        """What was shown, each time."""
        while select.select([self.main], [], [], 0.05)[0]:
            try:
                read = os.read(self.main, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            self.written += read.decode()
        frames = self.written.split("\x1b[J")
        return [re.sub("\x1b\\[[0-9;]*[A-Z]", "", frame).split("\r\n") for frame in frames]

    def shows(self, holds: Callable[[list[str]], object], what: str = "") -> list[str]:
        """Wait for a frame, since the last key; return it."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for frame in self.frames()[self.seen : -1]:
                if holds(frame):
                    return frame
        raise AssertionError(f"{what}: {self.written[-2000:]!r}")

    def rest(self) -> str:
        """What is left on the terminal when the table is no longer renewed."""
        return "\n".join(self.frames()[-1])

    def press(self, keys: str) -> None:
        self.seen = len(self.frames()) - 1
        os.write(self.main, keys.encode())

    @property
    def is_cooked(self) -> bool:
        """Whether lines are read as a shell leaves them: whole, with echo."""
        modes: int = termios.tcgetattr(self.main)[3]
        return bool(modes & termios.ICANON and modes & termios.ECHO)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.main)
    with suppress(OSError):
        os.close(made.other)


@pytest.fixture
def working(tmp_path: Path, start: Callable[..., Any]) -> int:
    program = tmp_path / "working"
    command = ["gcc", "-O2", "-g", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    pid: int = start(program).pid
    return pid


def functions(frame: list[str]) -> list[str]:
    return [name for line in frame for name in line.split()[-1:] if name in NAMES]


@pytest.mark.parametrize(
    ("words", "order", "number"),
    [
        (("count",), ["alpha", "beta", "gamma_"], "3"),
        (("latency",), ["gamma_", "alpha", "beta"], ":"),
        (("attach", "--format", "report"), ["gamma_", "alpha", "beta"], "7"),
        (("report",), ["gamma_", "alpha", "beta"], "7"),
    ],
)
def test_keys_sort_filter_and_pause(
    words: tuple[str, ...],
    order: list[str],
    number: str,
    working: int,
    terminal: Terminal,
    start_lbtrace: Callable[..., Any],
) -> None:
    interval = ("--interval", "100ms") if words[0] != "attach" else ()
    ends = {"stdin": terminal.other, "stdout": terminal.other}
    traced = start_lbtrace(
        *(*words, "--func", "alpha,beta,gamma_", "--pid", working, *interval),
        **{**ends, "env": {**os.environ, "TERM": "xterm"}},
    )
    frame = terminal.shows(lambda frame: len(functions(frame)) == 3, "the table")
    assert not terminal.is_cooked
    assert "q quit" in frame[-2]
    column = "COUNT▼" if words[0] == "count" else "TOTAL▼"
    assert column in frame[0]
    if words[0] != "latency":  # it has more columns than there are digits
        terminal.press(number)
        names = sorted(order)
        terminal.shows(lambda frame: functions(frame) == names, "by name")
        terminal.press("r")
        terminal.shows(lambda frame: functions(frame) == names[::-1], "reverse")
        terminal.press("1")
    terminal.press("r/")
    terminal.press("A_\r")
    frame = terminal.shows(lambda frame: "with A_" in frame[-2], "the filter")
    assert functions(frame) == ["gamma_"]
    terminal.press("/\x1b ")
    paused = terminal.shows(lambda frame: "paused" in frame[-2], "the pause")
    time.sleep(0.5)
    terminal.press("p")
    later = terminal.shows(lambda frame: "paused" not in frame[-2], "no pause")
    assert len(functions(paused)) == len(functions(later)) == 3
    terminal.press("q")
    os.close(terminal.other)
    status, _, said = traced.finish()
    assert (status, "nothing lost" in said) == (0, True)
    assert terminal.is_cooked


@pytest.mark.parametrize("words", [("count",), ("report",), ("stacks",)])
def test_the_last_table_is_that_which_was_looked_at(
    words: tuple[str, ...], working: int, terminal: Terminal, start_lbtrace: Callable[..., Any]
) -> None:
    """With its filter, which it names, and without what that hides among what is left out."""
    traced = start_lbtrace(
        *(*words, "--func", "alpha,beta,gamma_", "--pid", working, "--interval", "100ms"),
        *("--top", "1"),
        **{"stdin": terminal.other, "stdout": terminal.other},
        env={**os.environ, "TERM": "xterm"},
    )
    terminal.shows(lambda frame: any("2 more" in line for line in frame), "the table")
    terminal.press("/eta\r")
    terminal.shows(lambda frame: "with eta" in frame[-2] and "more" not in frame[-2], "the filter")
    terminal.press("q")
    os.close(terminal.other)
    status, _, said = traced.finish()
    assert (status, "nothing lost" in said) == (0, True)
    last = terminal.rest()
    assert "beta" in last
    assert "alpha" not in last
    assert "gamma_" not in last
    assert "more" not in last
    assert f"only {'stacks' if words[0] == 'stacks' else 'rows'} with eta" in last


def test_the_terminal_is_as_it_was_where_lbtrace_is_stopped_or_ended(
    working: int, terminal: Terminal, start_lbtrace: Callable[..., Any], eventually: Any
) -> None:
    for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 0)):
        traced = start_lbtrace(
            *("count", "--func", "alpha", "--pid", working, "--interval", "100ms"),
            **{"stdin": terminal.other, "stdout": terminal.other},
            env={**os.environ, "TERM": "xterm"},
        )
        terminal.shows(lambda frame: "alpha" in functions(frame), "the table")
        assert not terminal.is_cooked
        terminal.seen = len(terminal.frames()) - 1
        traced.process.send_signal(signal.SIGTSTP)
        eventually(lambda pid=traced.pid: "State:\tT" in Path(f"/proc/{pid}/status").read_text())
        assert terminal.is_cooked
        traced.process.send_signal(signal.SIGCONT)
        eventually(lambda: not terminal.is_cooked)
        terminal.shows(lambda frame: "alpha" in functions(frame), "the table")
        traced.process.send_signal(number)
        assert traced.finish()[0] == status
        assert terminal.is_cooked
        terminal.seen = len(terminal.frames())


def test_a_command_keeps_what_is_typed(
    tmp_path: Path, terminal: Terminal, lbtrace: Callable[..., Any]
) -> None:
    read = tmp_path / "read"
    command = ["sh", "-c", f"read line; echo $line > {read}"]
    terminal.press("q1/p\n")
    done = lbtrace(
        *("count", "--syscall", "read", "--interval", "100ms", "--", *command),
        **{"stdin": terminal.other, "stdout": terminal.other, "capture_output": False},
        **{"stderr": subprocess.PIPE, "env": {**os.environ, "TERM": "xterm"}},
    )
    assert (done.returncode, read.read_text()) == (0, "q1/p\n")
    assert "q quit" not in "".join(map("".join, terminal.frames()))


@pytest.mark.parametrize(("words", "most"), [((), 1000), (("--top", "1100"), 1100)])
def test_what_is_too_long_for_a_terminal_is_not_printed(
    words: tuple[str, ...],
    most: int,
    working: int,
    terminal: Terminal,
    start_lbtrace: Callable[..., Any],
) -> None:
    traced = start_lbtrace(
        *("count", "--func", "alpha", "--by", "n", "--pid", working, *words),
        **{"stdin": terminal.other, "stdout": terminal.other},
        env={**os.environ, "TERM": "xterm"},
    )
    more = re.compile(r"and ([\d,]+) more")

    def left(frame: list[str]) -> int:
        found = more.search("\n".join(frame))
        return int(found[1].replace(",", "")) if found else 0

    terminal.shows(lambda frame: left(frame) > 1200, "many rows")
    terminal.seen = len(terminal.frames()) - 1
    traced.process.send_signal(signal.SIGINT)
    status, _, said = traced.finish()
    assert status == 0
    counted = re.search(r"([\d,]+) calls counted, nothing lost", said)
    last = terminal.frames()[-1]
    rows = [line for line in last if re.fullmatch(r" *1  +\d+", line)]
    assert len(rows) == most
    assert counted
    assert left(last) == int(counted[1].replace(",", "")) - most


def test_paths_are_a_tree_whatever_is_looked_for(
    working: int, terminal: Terminal, start_lbtrace: Callable[..., Any]
) -> None:
    """Rows around those that are looked for stay, in the last table as well."""
    traced = start_lbtrace(
        *("report", "--func", "gamma_,usleep", "--pid", working, "--by", "path"),
        **{"stdin": terminal.other, "stdout": terminal.other},
        env={**os.environ, "TERM": "xterm"},
    )

    def is_tree(frame: list[str]) -> bool:
        last = "".join(f"{line[60:]};" for line in frame if line.endswith(("usleep", "gamma_")))
        return "gamma_;  usleep;" in last

    terminal.shows(is_tree, "the tree")
    for column in "67":
        terminal.press(column)
        terminal.shows(is_tree, f"by column {column}")
    terminal.press("/sleep\r")
    terminal.shows(lambda frame: "with sleep" in frame[-2] and is_tree(frame), "the filter")
    terminal.press("q")
    os.close(terminal.other)
    assert traced.finish()[0] == 0
    assert is_tree(terminal.frames()[-1])


@pytest.mark.parametrize(
    ("words", "columns", "ends"),
    [
        (("latency",), 80, "PID  FUNCTION"),
        (("latency",), 50, "PID  FUNCTION"),
        (("latency", "--by", "func,n % 2,tid"), 60, "func  n % 2  tid"),
        (("count", "--by", "func,n % 2", "--avg", "n,n * 2,n * 3,n * 4"), 60, "func  n % 2"),
    ],
)
def test_the_key_has_room_on_a_narrow_terminal(
    words: tuple[str, ...],
    columns: int,
    ends: str,
    working: int,
    terminal: Terminal,
    start_lbtrace: Callable[..., Any],
) -> None:
    fcntl.ioctl(terminal.other, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    traced = start_lbtrace(
        *(*words, "--func", "alpha,beta,gamma_", "--pid", working, "--interval", "100ms"),
        **{"stdin": terminal.other, "stdout": terminal.other},
        env={**os.environ, "TERM": "xterm"},
    )
    frame = terminal.shows(
        lambda frame: all(any(name in line for line in frame) for name in NAMES), "the table"
    )
    assert re.sub(" +", " ", frame[0]).endswith(re.sub(" +", " ", ends))
    assert all(len(line) <= columns for line in frame)
    assert "…" not in "".join(line for line in frame if any(name in line for name in NAMES))
    terminal.press("q")
    os.close(terminal.other)
    status, _, said = traced.finish()
    assert (status, "nothing lost" in said) == (0, True)
