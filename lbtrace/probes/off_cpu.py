"""Where threads were blocked for long: how long threads do not run is measured besides."""

from lbtrace.probes.source import Source

SOURCES = (
    Source(
        name="off_cpu",
        programs={"blocked": "switched"},
        attach=("off_cpu",),
    ),
)
