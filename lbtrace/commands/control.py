"""Signals while a trace runs: they end it, or go to the traced command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbtrace.session.session import Session

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PASSED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT)


class Interrupts:
    """What came of the signals: ``insisted`` says that Ctrl-C came again, and ended the
    trace though the command runs on."""

    def __init__(self) -> None:
        self.count = 0
        self.insisted = False
        self.session: Session | None = None

    def give_up_output(self) -> bool:
        """Return whether nobody waits for what is still to be written: the user has pressed Ctrl-C,
        and the command has ended if there is one. Then the trace ends."""
        session = self.session
        if not self.count or session is None:
            return False
        child = session.child
        if child is not None and not self.insisted and child.poll() is None:
            return False
        session.stop()
        return True


@contextmanager
def signals(session: Session) -> Iterator[Interrupts]:
    """Within, no signal kills lbtrace before its output is whole.

    Until the trace has begun they give it up. Without a command, or when that has
    ended, they end the trace. A command gets them passed on and ends the trace by
    its own end; what the terminal sends, it has got already. The second Ctrl-C ends
    the trace whatever the command does. After Ctrl-C, what waits to be written is
    written for a moment, and the rest counted as lost. While probes are being detached, one leaves
    that to the kernel. A hang-up that lbtrace was started to ignore, as by nohup(1),
    stays ignored. What else it was to ignore, as a shell has what runs in the background
    ignore Ctrl-C, the command does.
    """
    interrupts = Interrupts()
    interrupts.session = session

    def end(number: int, frame: FrameType | None) -> None:
        if not session.begun:
            session.interrupt(number)
            return
        if session.abandon():
            return
        if number == signal.SIGINT:
            interrupts.count += 1
            session.hurry()
        if session.child is None or session.target_ended:
            session.stop()
        elif interrupts.count > 1:
            interrupts.insisted = True
            session.stop()
        elif not (number in (signal.SIGINT, signal.SIGQUIT) and _from_terminal()):
            session.child.send(number)

    def pass_on(number: int, frame: FrameType | None) -> None:
        if session.begun and session.child is not None:
            session.child.send(number)

    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    ending = [number for number in _ENDING if not (ignored and number == signal.SIGHUP)]
    former = {number: signal.signal(number, end) for number in ending}
    if session.target.command:
        former |= {number: signal.signal(number, pass_on) for number in _PASSED}
    handlers = dict(former)
    if session.target.command:
        # Were it ignored, the command's exit status would be lost.
        handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    session.ignored = frozenset(n for n, handler in handlers.items() if handler == signal.SIG_IGN)
    try:
        yield interrupts
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
