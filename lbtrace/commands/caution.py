"""What a user should know before files that are worked on get breakpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt", "/proc")
"""Directories of installed files, on which users do not work."""


def caution(paths: Sequence[str]) -> str:
    """Return what to say where files are traced in every process that maps them; ``""`` mostly."""
    worked_on = [path for path in paths if _in_work_tree(os.path.abspath(path))]
    if not worked_on:
        return ""
    return (
        f"until the trace ends, don't commit or copy by mmap {' and '.join(worked_on)},"
        " nor run it under valgrind: its pages hold breakpoints (docs/safety.md)"
    )


def _in_work_tree(path: str) -> bool:
    """Whether git may be asked to store the file."""
    if any(path.startswith(f"{directory}/") for directory in SYSTEM):
        return False
    parent = os.path.dirname(path)
    while parent != path:
        path, parent = parent, os.path.dirname(parent)
        if os.path.exists(os.path.join(path, ".git")):
            return True
    return False
