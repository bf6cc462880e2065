"""How a child has ended, as wait(2) tells: ``exited 1``, ``killed by SIGKILL``."""

from __future__ import annotations

from signal import Signals

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant

STOPPED, CONTINUED = 0x7F, 0xFFFF

REAL_TIME = 32

OF_SYSTEM_CALLS = 0x80
"""What is added to ``SIGTRAP`` where a tracer asked for that (``PTRACE_O_TRACESYSGOOD``)."""


class WaitStatus(NumberType, Struct, frozen=True, tag="wait_status"):
    """A status of wait(2). Layout: the kernel's ``wait_task_zombie``, ``wait_task_stopped`` and
    ``wait_task_continued`` (kernel/exit.c)."""

    name: str = "int"
    size: int = 4

    signed = True
    computes = True

    def decoder(self) -> Decoder:
        return _read


def _read(raw: int) -> Datum:
    status = raw & 0xFFFFFFFF
    if status == CONTINUED:
        return Constant("continued")
    low, high = status & 0xFF, status >> 8
    if low == STOPPED:
        added = high & OF_SYSTEM_CALLS
        name = signal_name(high & 0xFF & ~OF_SYSTEM_CALLS)
        return Constant(f"stopped by {name}{f'|{added:#x}' if added else ''}")
    if low:
        return Constant(
            f"killed by {signal_name(low & 0x7F)}{', core dumped' if low & 0x80 else ''}"
        )
    return Constant(f"exited {high & 0xFF}")


def signal_name(number: int) -> str:
    """Return the name of a signal; real-time ones are called as strace calls them."""
    if number >= REAL_TIME:
        return f"SIGRT_{number - REAL_TIME}"
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
