"""Keys that are pressed while a table is shown."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import termios
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import IO, Any

from lbtrace.commands.streams import owns_line

REDRAW = "\x0c"
"""Ctrl-L. It is also given when the terminal is this process's again, after Ctrl-Z."""

_KEY = re.compile("\x1b(?:\\[[0-9;]*[@-~]|O[@-~])|.", re.DOTALL)


class Keyboard:
    """The keys of the terminal that ``stream`` reads, one by one and without echo, from entering to
    leaving it. While this is a job in the background, or stopped, the terminal is as it was.
    Ctrl-C and Ctrl-Z remain signals."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._modes: list[Any] | None = None
        """Those that the terminal had."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._gone = False

    def __enter__(self) -> Keyboard:
        self._former = signal.getsignal(signal.SIGTSTP)
        if self._former != signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        signal.signal(signal.SIGTSTP, self._former or signal.SIG_DFL)

    def pressed(self) -> Iterator[str]:
        """Yield the keys that were pressed since this was asked last: characters, and the sequences
        of those that have none."""
        if self._gone or not owns_line(self._stream):
            return
        with suppress(OSError, termios.error):
            if self._take():
                yield REDRAW
            if select.select([self._descriptor], [], [], 0)[0]:
                read = os.read(self._descriptor, 4096)
                self._gone = not read
                yield from _KEY.findall(self._decoder.decode(read))

    def _take(self) -> bool:
        """Let keys come one by one, if they do not; whether they did not. A shell has set the
        terminal as it likes where this was stopped."""
        if not owns_line(self._stream):
            return False
        modes = termios.tcgetattr(self._descriptor)
        if not modes[3] & termios.ICANON:
            return False
        self._modes = [*modes]
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6] = [*modes[6]]
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)
        return True

    def _give_back(self) -> None:
        if self._modes is not None and owns_line(self._stream):
            with suppress(OSError, termios.error):  # it is gone
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._modes)
        self._modes = None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stop, as Ctrl-Z asks for."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
