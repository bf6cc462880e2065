"""System calls: the tracepoints by which a thread enters the kernel and leaves it."""

from lbtrace.probes.source import Source

UNREAD = "syscall, unread"
"""The event that a call ends of which something could not be read when it began:
bpf_src/programs/atomic/syscall.h."""

SOURCES = (
    Source(
        name="syscall",
        programs={"opens": "syscall_entered", "closes": "syscall_left"},
        attach=("raw_tracepoint",),
        everywhere=True,
    ),
)
