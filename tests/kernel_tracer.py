"""What the kernel's own tracer says, with which tests compare."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
        yield (own / "trace").read_text
    finally:
        (own / "events/enable").write_text("0")
        own.rmdir()
