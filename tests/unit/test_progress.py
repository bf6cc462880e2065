"""The line that shows progress belongs to the job in the foreground of a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

SHOWING = """
import os
from lbtrace.commands.progress import Progress
if {background}:
    if os.fork():
        os.wait()
        os._exit(0)
    os.setpgid(0, 0)
with Progress(True) as progress:
    progress.show(7)
"""


@pytest.mark.parametrize("background", [False, True])
def test_only_in_the_foreground(background: bool) -> None:
    terminal, other = pty.openpty()
    shown = subprocess.Popen(
        ["setsid", "--ctty", "--wait", sys.executable, "-c", SHOWING.format(background=background)],
        **dict.fromkeys(("stdin", "stdout", "stderr"), other),
        env={**os.environ, "TERM": "xterm"},
    )
    assert shown.wait(timeout=30) == 0
    os.write(other, b"end")
    text = os.read(terminal, 1000)
    os.close(terminal)
    os.close(other)
    assert (b"7 calls" in text) != background
