"""What the kernel's own tracer says, with which tests compare."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lbtrace.system.tracefs import find_root


@contextmanager
def kernel_trace(events: Sequence[str]) -> Iterator[Callable[[], str]]:
    """What it prints of the ``events`` meanwhile, with times of CLOCK_MONOTONIC."""
    own = Path(find_root()) / "instances" / f"lbtrace-test-{os.getpid()}"
    own.mkdir()
    try:
        (own / "trace_clock").write_text("mono")
        (own / "buffer_size_kb").write_text("16384")
        for event in events:
            (own / "events" / event.replace(":", "/") / "enable").write_text("1")
        yield partial((own / "trace").read_text, errors="replace")  # processes are called anything
    finally:
        (own / "events/enable").write_text("0")
        own.rmdir()


@contextmanager
def function_graph(functions: Sequence[str], pid: int) -> Iterator[Callable[[], str]]:
    """What the kernel prints of the calls of its ``functions`` meanwhile, of a process with the
    threads that it starts, outside of hardware interrupts. Before 6.12 only the first instance of
    the tracer can do so."""
    root = Path(find_root())
    settings = {
        "buffer_size_kb": ("65536", "1408"),
        "options/function-fork": ("1", "0"),
        "options/funcgraph-proc": ("1", "0"),
        "options/funcgraph-irqs": ("0", "1"),
        "set_ftrace_filter": (" ".join(functions), ""),
        "set_ftrace_pid": (str(pid), ""),
        "current_tracer": ("function_graph", "nop"),
    }
    try:
        (root / "trace").write_text("")
        for name, (value, _) in settings.items():
            (root / name).write_text(value)
        yield (root / "trace").read_text
    finally:
        for name, (_, value) in reversed(settings.items()):
            (root / name).write_text(value)
