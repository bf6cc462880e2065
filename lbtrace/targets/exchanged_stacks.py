"""Processes in which coroutines exchange what is on one stack, as greenlet's do, by what they have
mapped: asked where every process is traced, of which no plan can tell what it loads."""

from __future__ import annotations

import os
import re

_GREENLET = rb"(?m)/[^\n]*/_greenlet\.[^/\n]*\.so$"
"""greenlet's extension module in ``/proc/PID/maps``."""


def find_exchanging(maps: bytes) -> str:
    """Return the path of a file that exchanges what is on stacks in a process with these ``maps``;
    empty where it has none."""
    found = re.search(_GREENLET, maps) if b"/_greenlet." in maps else None
    return os.fsdecode(found[0]) if found else ""
