"""Where probes are that are in no file."""

from __future__ import annotations

from msgspec import Struct


class KernelEvent(Struct, frozen=True):
    """An event of the kernel, at which a probe is that is in no file."""

    name: str
    """As its source calls it: ``syscall``."""
    number: int
    """Which one: the number of a system call."""
    bound: int = 0
    """So many ns at least that a thread is blocked, where it is about that."""
    others: tuple[int, ...] = ()
    """Events of other numbers that are the same to the probe."""
