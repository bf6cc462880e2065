"""What can be named to be traced: `NAMING` has the options of ``lbtrace attach`` that do so.

How to add one: docs/extending.md, "A source of probes".
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Naming(NamedTuple):
    """An option that names what to trace.

    ``values`` and ``help`` are what its help says. It is called ``keyword`` by `lbtrace.trace`,
    where ``example`` shows it. ``finder`` is the module of `lbtrace.plan` that finds what is named
    (`lbtrace.plan.found.Finder`). ``place``: that is in ``code`` of the files that are traced, or
    of ``any`` file that is loaded, or in the ``kernel``, where no file is traced. They are calls of
    ``functions``.
    """

    values: str
    help: str
    finder: str
    keyword: str = ""
    example: str = ""
    place: Literal["code", "any", "kernel"] = "code"
    functions: bool = False


def option_of(name: str) -> str:
    """Return an option as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


NAMING = {
    "func": Naming(
        "PATTERN",
        "a name, a glob or /regex/; NAME@BINARY: only there",
        "functions",
        keyword="functions",
        functions=True,
    ),
    "source": Naming(
        "FILE",
        "the functions that this source file defines: trace.c, 'src/*.c'",
        "source_files",
        "source",
        'give the names of files: source=["trace.c"]',
        functions=True,
    ),
    "syscall": Naming(
        "NAMES",
        "system calls: openat, 'read*', /regex/; several with commas",
        "syscalls",
        "syscalls",
        'give names: syscalls=["openat", "read*"]',
        "kernel",
    ),
    "tracepoint": Naming(
        "NAMES",
        "tracepoints of the kernel: sched:sched_switch, 'block:*', /regex/; several with commas",
        "tracepoints",
        "tracepoints",
        'give names: tracepoints="sched:*"',
        "kernel",
    ),
    "kernel": Naming(
        "NAMES",
        "functions of the kernel: vfs_read, 'tcp_*', 'MODULE:*', /regex/, vfs_read+0x9; several"
        " with commas",
        "kernel_functions",
        "kernel",
        'give names: kernel=["vfs_*", "tcp_sendmsg"]',
        "kernel",
    ),
    "usdt": Naming(
        "PROVIDER:NAME",
        "whenever the program comes to this marker; globs, /regex/",
        "markers",
        "usdt",
        'give markers: usdt=["python:gc__*"]',
        "any",
    ),
    "line": Naming(
        "FILE:LINE",
        "whenever the program comes to this line",
        "points",
        "lines",
        'give lines of files: lines=["server.c:312"]',
    ),
    "at": Naming(
        "FILE:ADDRESS",
        "whenever it comes to the instruction at this address, as objdump prints it",
        "points",
        "places",
        'give addresses in files: places=["./prog:0x1149"]',
    ),
}
"""The options, by name, in the order of help."""
