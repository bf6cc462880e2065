"""On which stacks threads were blocked, and for how long: ``stacks --off-cpu``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.model import NO_BINARY, Function, KernelEvent, Probe
from lbtrace.plan.found import Found
from lbtrace.plan.selection import Selection
from lbtrace.plan.tracepoints import BELOW
from lbtrace.system.tracefs import read_format
from lbtrace.tracepoints import parse_format

SWITCH = "sched:sched_switch"


def find(images: Sequence[Image], selection: Selection) -> Iterator[Found]:
    """Yield the one point that there is. Raises `KernelError`."""
    format = parse_format(read_format(SWITCH))
    event = KernelEvent(SWITCH, format.number, selection.off_cpu)
    point = Probe(BELOW, "point", source="blocked", binary=NO_BINARY, event=event)
    shown = Function("off-CPU", 0, 0, 0, binary=NO_BINARY)
    yield Found(shown, point, None, format.places)
