"""Bytes to events: the layout of ``struct lbt_event`` in ``bpf_src/lbtrace.h``.

Fixed-size records, little-endian, naturally aligned. Decoding goes batch by
batch: `struct.Struct.iter_unpack` and `itertools.starmap` run it in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from struct import Struct

from lbtrace.model import LOSS, Batch, Event

EVENT = Struct("<QQQIIIHHII6Q")
"""A record as it leaves the gather function: the kernel's, less the thread name."""

EVENT_SIZE = EVENT.size


MOST_LOST = 0xFFFF
"""Entries, and returns, that one event can tell the loss of."""


def losses(time: int, pid: int, tid: int, goroutine: int, entries: int, returns: int) -> bytes:
    """Records that tell what a thread or goroutine lost last of all."""
    records = []
    while entries or returns:
        first, second = min(entries, MOST_LOST), min(returns, MOST_LOST)
        told = first << 16 | second
        records.append(EVENT.pack(time, 0, goroutine, 0, pid, tid, LOSS, 0, told, *[0] * 7))
        entries, returns = entries - first, returns - second
    return b"".join(records)


def decode(batch: Batch) -> Iterator[Event]:
    """The events of a batch, in order.

    The bytes that accompany them are in ``batch.blobs``, in the same order,
    `Event.blob` bytes each.
    """
    return starmap(Event, EVENT.iter_unpack(batch.events))
