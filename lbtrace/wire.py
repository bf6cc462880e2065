"""Bytes to events: the layout of ``struct lbt_event`` in ``bpf_src/lbtrace.h``.

Fixed-size records, little-endian, naturally aligned. Decoding goes batch by
batch: `struct.Struct.iter_unpack` and `itertools.starmap` run it in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from struct import Struct

from lbtrace.model import Batch, Event

EVENT = Struct("<QQQIIIHHII6Q")
"""A record as it leaves the gather function: the kernel's, less the thread name."""

EVENT_SIZE = EVENT.size


def decode(batch: Batch) -> Iterator[Event]:
    """The events of a batch, in order.

    The bytes that accompany them are in ``batch.blobs``, in the same order,
    `Event.blob` bytes each.
    """
    return starmap(Event, EVENT.iter_unpack(batch.events))
