"""Probes on instructions of a file, in every process that maps it: uprobes and uretprobes
(Documentation/trace/uprobetracer.rst of the kernel)."""

from lbtrace.probes.source import Source

UPROBE = Source(
    name="uprobe",
    programs={
        "opens": "entered",
        "closes": "exit_site",
        "tail": "exit_site",
        "tail return": "exit_site",
        "point": "reached",
        "more values": "reached",
        "landing": "landed",
        "crash": "landed",
        "panic": "reached",
        "stack": "reached",
        "stack below": "reached",
        "exchange": "reached",
        "lane end": "reached",
    },
    attach=("multi", "plain"),
)

URETPROBE = Source(
    name="uretprobe",
    programs={"closes": "returned"},
    attach=("session", "multi", "plain"),
    at_return=True,
    paired="session",
)
"""The kernel replaces the return address of a call that begins at the site."""

SOURCES = (UPROBE, URETPROBE)
