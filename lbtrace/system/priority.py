"""How soon this thread gets a processor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NICENESS = -10
"""Of a thread that must not wait long where others are busy: sched(7), "The nice value"."""


@contextmanager
def hurried() -> Iterator[None]:
    """Within, this thread gets a processor before others: what it does is little, and late it is
    worth nothing. Where the user has chosen a niceness, that stays; without CAP_SYS_NICE nothing
    changes."""
    chosen = os.getpriority(os.PRIO_PROCESS, 0)
    if chosen:
        yield
        return
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, chosen)
