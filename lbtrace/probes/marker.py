"""Places that the authors of a program marked for tracers (USDT): uprobes that raise a counter
in the program while they are attached, by which many programs decide whether to come there."""

from lbtrace.probes.source import Source

SOURCES = (
    Source(
        name="marker",
        # One that closes a call may be a point, which names its thread.
        programs={"point": "reached", "opens": "entered", "closes": "reached"},
        attach=("multi", "plain"),
        pairing="lane",
        raises_counter=True,
    ),
)
