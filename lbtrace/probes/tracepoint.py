"""Tracepoints: places in the kernel that its authors named for tracers."""

from lbtrace.probes.source import Source

SOURCES = (
    Source(
        name="tracepoint",
        programs={"point": "tracepoint_hit"},
        attach=("tracepoint",),
        everywhere=True,
    ),
)
