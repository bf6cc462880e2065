"""Signals while a trace runs: they end it, or go to the traced command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lbtrace.session import Session

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PASSED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT)


@contextmanager
def signals(session: Session) -> Iterator[None]:
    """Within, no signal kills lbtrace before its output is whole.

    Without a command they end the trace. A command gets them passed on and
    ends the trace by its own end; what the terminal sends, it has got already.
    The second Ctrl-C ends the trace whatever the command does. While probes
    are being detached, one leaves that to the kernel.
    """
    interrupts = 0

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        if session.abandon():
            return
        interrupts += number == signal.SIGINT
        if session.child is None or interrupts > 1:
            session.stop()
        elif not (number in (signal.SIGINT, signal.SIGQUIT) and _from_terminal()):
            session.child.send(number)

    def pass_on(number: int, frame: FrameType | None) -> None:
        if session.child is not None:
            session.child.send(number)

    former = {number: signal.signal(number, end) for number in _ENDING}
    if session.child is not None:
        former |= {number: signal.signal(number, pass_on) for number in _PASSED}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _from_terminal() -> bool:
    """Whether a SIGINT is the terminal's, which sends it to the whole foreground group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
