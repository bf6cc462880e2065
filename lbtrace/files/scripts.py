"""Scripts: files that another program runs, which their first line names (execve(2))."""

from __future__ import annotations

import os

from lbtrace.errors import BinaryError, option

FIRST_LINE = 256
"""Bytes in which the kernel looks for the interpreter (BINPRM_BUF_SIZE in linux/binfmts.h)."""


def first_line(data: bytes) -> str:
    """Return what follows ``#!`` at the start of a file; empty where nothing does."""
    if not data.startswith(b"#!"):
        return ""
    return os.fsdecode(data[2:FIRST_LINE].partition(b"\n")[0]).strip(" \t\r")


def why_not_run(data: bytes) -> str:
    """Return why a script that begins with ``data`` cannot be run, as a clause; else empty."""
    line = first_line(data)
    if not data.startswith(b"#!"):
        return ""
    if not line:
        return "which names no interpreter"
    interpreter = line.split()[0]
    return "" if os.path.exists(interpreter) else f"whose interpreter {interpreter} does not exist"


def refusal(path: str, data: bytes) -> BinaryError:
    """Return why the script at ``path``, which begins with ``data``, is not traced itself."""
    if reason := why_not_run(data):
        return BinaryError(f"{path}: is a script {reason}", "correct its first line")
    line = first_line(data)
    return BinaryError(
        f"{path}: is a script run by {line}, not an ELF file",
        f"trace its interpreter instead: {option('binary', line.split()[0])}",
    )
