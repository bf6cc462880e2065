"""The processes that this one started, directly or not."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): orphans among the descendants become children of this process (Linux 3.4)."""


def adopt() -> None:
    """Remain an ancestor of what descendants start, daemons as well."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> list[int]:
    """All processes below this one that have not ended."""
    children = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                children[int(parent)].append(int(stat.parent.name))
    found = list(children[os.getpid()])
    for pid in found:
        found += children[pid]
    return found


def kill_all() -> None:
    """Kill all descendants, and reap those that are children now."""
    while left := descendants():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
