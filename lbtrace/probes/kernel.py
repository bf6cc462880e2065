"""Functions of the kernel: kprobes and kretprobes (Documentation/trace/kprobes.rst of the
kernel)."""

from lbtrace.probes.source import Source

ATTACH = ("kernel_multi", "kernel_plain")

SOURCES = (
    Source(
        name="kernel",
        programs={"opens": "kernel_entered"},
        attach=ATTACH,
        tried=True,
        everywhere=True,
    ),
    Source(
        name="kernel place",
        programs={"point": "kernel_reached"},
        attach=("kernel_plain",),
        tried=True,
        everywhere=True,
    ),
    Source(
        name="kernel return",
        programs={"closes": "kernel_returned"},
        attach=ATTACH,
        tried=True,
        everywhere=True,
        at_return=True,
    ),
)
