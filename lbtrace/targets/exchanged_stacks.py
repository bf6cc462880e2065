"""Processes in which coroutines exchange what is on one stack, as greenlet's do, by what they have
mapped: asked where every process is traced, of which no plan can tell what it loads."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from lbtrace.system.file import File
from lbtrace.system.procfs import read_bytes

_GREENLET = re.compile(rb"/[^\n]*/_greenlet\.[^/\n]*\.so$", re.MULTILINE)
"""greenlet's extension module in ``/proc/PID/maps``."""


def find_exchanging(files: Sequence[File]) -> str:
    """Return the path of a file that exchanges what is on stacks in a process which runs one of
    ``files``; empty where no process has one."""
    marks = [b" %d " % file.identity[1] for file in files]
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            maps = read_bytes(f"/proc/{process}/maps")
        except OSError:  # it has ended, or is none of ours
            continue
        if any(mark in maps for mark in marks) and (found := _GREENLET.search(maps)):
            return os.fsdecode(found[0])
    return ""
