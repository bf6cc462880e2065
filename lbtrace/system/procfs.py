"""Reads the kernel's files about processes and itself: /proc and /sys.

pathlib would do, but takes longer to import than all of them to read.
"""

from __future__ import annotations

import os

PIECE = 1 << 16
"""Bytes that are read at a time."""


def directory_of(pid: int | str) -> str:
    """Return the directory that says what a process runs and has mapped: ``/proc/PID``, or that of
    a thread which lives where the first one has ended, as by pthread_exit: it has no memory."""
    own = f"/proc/{pid}"
    try:
        os.readlink(f"{own}/exe")
        return own
    except FileNotFoundError:  # that, or there is no process, or it is the kernel's
        pass
    except OSError:  # not permitted
        return own
    try:
        threads = os.listdir(f"{own}/task")
    except OSError:
        return own
    for thread in threads:
        if thread == str(pid):  # the kernel's have no other
            continue
        try:
            os.readlink(f"{own}/task/{thread}/exe")
            return f"{own}/task/{thread}"
        except OSError:
            continue
    return own


def first_thread_has_ended(pid: int) -> bool:
    """Return whether a process runs on without the thread that it began with."""
    return directory_of(pid) != f"/proc/{pid}"


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that run, as far as the kernel tells
    (CONFIG_PROC_CHILDREN)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        texts = [read_text(f"/proc/{pid}/task/{thread}/children") for thread in threads]
    except OSError:
        return []
    return sorted(int(child) for text in texts for child in text.split())


def read_bytes(path: str) -> bytes:
    """Return the content of a file. Raises `OSError`."""
    # Without io: it asks each file for its size, position and whether it is a terminal.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = [os.read(descriptor, PIECE)]
        while pieces[-1]:
            pieces.append(os.read(descriptor, PIECE))
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def read_text(path: str) -> str:
    """Return the content of a file, with a replacement character for what is no text. Raises
    `OSError`."""
    return read_bytes(path).decode(errors="replace")


def read_lines(path: str) -> list[str]:
    """Return the lines of a file, as `read_text`. Raises `OSError`.

    The kernel escapes only newlines in names of files and threads (``seq_escape_str``,
    fs/seq_file.c): other characters that `str.splitlines` takes for ends of lines are in names.
    """
    return read_text(path).removesuffix("\n").split("\n")
