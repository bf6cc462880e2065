from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from lbtrace.capture import CaptureWriter
from lbtrace.commands.fitting import fit
from lbtrace.commands.streams import has_colors
from lbtrace.model import Losses

FRAMED = "\x1b[1mabc\x1b[0mdef"


@pytest.mark.parametrize(
    ("line", "columns", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("│ äb", 4, "│ äb"),
        ("│ äb", 3, "│ …"),
        ("漢字", 4, "漢字"),
        ("漢字", 3, "漢…"),
        ("漢字x", 4, "漢…"),
        ("e\u0301a", 2, "e\u0301a"),
        (FRAMED, 6, FRAMED),
        (FRAMED, 5, "\x1b[1mabc\x1b[0md…\x1b[0m"),
        (FRAMED, 3, "\x1b[1mab…\x1b[0m"),
        ("ab", 1, "…"),
    ],
)
def test_lines_end_where_the_terminal_does(line: str, columns: int, shown: str) -> None:
    assert fit(line, columns) == shown


@pytest.fixture
def capture(tmp_path, script, fib_plan):
    script.fib(4)
    with open(tmp_path / "fib.lbt", "wb", buffering=0) as stream:
        writer = CaptureWriter(stream, fib_plan)
        writer.write(script.batch())
        writer.finish(Losses())
    return tmp_path / "fib.lbt"


def on_terminal(columns, capture, *options, **variables):
    """What a command writes to a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: os.environ[name] for name in os.environ if name not in ("COLUMNS", "NO_COLOR")}
    words = [sys.executable, "-m", "lbtrace", "export", capture, "--quiet", *options]
    subprocess.run(words, stdout=slave, check=True, env={**kept, "TERM": "xterm", **variables})
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 1 << 16):
            shown += piece
    except OSError:  # it has been read to its end
        os.close(master)
    return shown.decode().splitlines()


def test_only_lines_on_a_terminal_are_cut(capture):
    words = [sys.executable, "-m", "lbtrace", "export", capture, "--quiet"]
    whole = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert on_terminal(30, capture, NO_COLOR="1") == [fit(line, 30) for line in whole] != whole
    assert on_terminal(30, capture, "--wrap", NO_COLOR="1") == whole
    assert on_terminal(30, capture, COLUMNS="200", NO_COLOR="1") == whole
    colored = on_terminal(30, capture)
    assert [re.sub("\x1b\\[[0-9]*m", "", line) for line in colored] == [
        fit(line, 30) for line in whole
    ]


@pytest.mark.parametrize(
    ("when", "variables", "terminal", "pipe"),
    [
        ("auto", {}, True, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {"NO_COLOR": "1"}, False, False),
        ("auto", {"NO_COLOR": "", "CLICOLOR_FORCE": "1"}, True, True),
        ("auto", {"CLICOLOR_FORCE": "0"}, True, False),
        ("auto", {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False, False),
        ("always", {"NO_COLOR": "1"}, True, True),
        ("never", {"CLICOLOR_FORCE": "1"}, False, False),
    ],
)
def test_colors(when, variables, terminal, pipe, monkeypatch):
    for name in ("NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    main, other = pty.openpty()
    reader, writer = os.pipe()
    with open(other, "w") as screen, open(writer, "w") as piped:
        assert (has_colors(screen, when), has_colors(piped, when)) == (terminal, pipe)
    os.close(main)
    os.close(reader)


def test_the_color_that_is_asked_for(capture):
    words = [sys.executable, "-m", "lbtrace", "export", capture, "--quiet", "--color", "always"]
    assert b"\x1b[1mfib" in subprocess.run(words, capture_output=True, check=True).stdout
    assert not any("\x1b" in line for line in on_terminal(80, capture, "--color", "never"))
