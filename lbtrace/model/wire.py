"""Decodes bytes to events, by the layout of ``struct lbt_event`` in ``bpf_src/wire.h``.

Fixed-size records, little-endian, naturally aligned. Decoding goes batch by
batch: `struct.Struct.iter_unpack` and `itertools.starmap` run it in C.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import starmap
from struct import Struct

from lbtrace.model.events import Batch, Event, lost_events
from lbtrace.model.wire_limits import CALLERS, LOSS, OPEN, UNPROBED
from lbtrace.model.wire_limits import KIND_MASK as KIND

EVENT = Struct("<QQQIIIHHII6Q")
"""A record as ``lbt_collect`` (lbtrace/native/reader.c) makes it: the kernel's, without the thread
name."""

EVENT_SIZE = EVENT.size

KIND_AT = 36
"""Where the kind of a record is, its lower byte."""

EVENT_WORDS, PID_WORD, BLOB_WORD = EVENT_SIZE // 4, 7, 11
"""A record as words of 32 bits: where the process and the length of its bytes are."""

_CALLERS = bytes(number & KIND == CALLERS for number in range(256))

_OF_PROBES = bytes(number & KIND < LOSS for number in range(256))

_REPORTS = bytes(number & KIND == LOSS for number in range(256))


def losses(time: int, pid: int, tid: int, goroutine: int, lost: Sequence[int]) -> bytes:
    """Return a record of the events that a thread or goroutine lost last of all, by kind."""
    words = lost[0] | lost[1] << 32, lost[2] | lost[3] << 32
    return EVENT.pack(time, 0, goroutine, 0, pid, tid, LOSS, 0, 0, 0, *words, *[0] * 4)


def unprobed(since: int, until: int = 0) -> bytes:
    """Return a record of the times since when, and until when, returns may not be seen; 0 means for
    good."""
    return EVENT.pack(since, 0, 0, 0, 0, 0, UNPROBED, 0, 0, 0, until, *[0] * 5)


def decode(batch: Batch) -> Iterator[Event]:
    """Return the events of a batch, in order.

    The bytes that accompany them are in ``batch.blobs``, in the same order,
    `Event.blob` bytes each.
    """
    return decode_all(batch.events)


def decode_all(events: bytes | memoryview) -> Iterator[Event]:
    """Return the ``events`` of a part of a batch."""
    return starmap(Event, EVENT.iter_unpack(events))


def decode_at(events: bytes | memoryview, number: int) -> Event:
    """Return one of the ``events`` of a batch."""
    return Event(*EVENT.unpack_from(events, number * EVENT_SIZE))


def find_reports(
    batch: Batch,
) -> Iterator[tuple[tuple[int, int, int], tuple[int, int, int, int]]]:
    """Yield what the records of losses in a batch say: a pid, a tid and a goroutine, and what that
    lost (`lost_events`). Searches all records at once."""
    found = memoryview(batch.events)[KIND_AT::EVENT_SIZE].tobytes().translate(_REPORTS)
    number = found.find(1)
    while number >= 0:
        event = decode_at(batch.events, number)
        yield (event.pid, event.tid, event.lane), lost_events(event)
        number = found.find(1, number + 1)


def find_callers(batch: Batch) -> list[int]:
    """Return which records of a batch are callers of calls. Searches all records at once."""
    kinds = memoryview(batch.events)[KIND_AT::EVENT_SIZE].tobytes().translate(_CALLERS)
    found, number = [], kinds.find(1)
    while number >= 0:
        found.append(number)
        number = kinds.find(1, number + 1)
    return found


def count_events(batch: Batch) -> int:
    """Return how many events of probes a batch holds: losses and the like are none."""
    kinds = memoryview(batch.events)[KIND_AT::EVENT_SIZE].tobytes()
    return kinds.translate(_OF_PROBES).count(1)


def cut_after(batch: Batch, time: int) -> Batch:
    """Return what of a batch happened until ``time``."""
    count = len(batch.events) // EVENT_SIZE
    if not count or decode_at(batch.events, count - 1).time <= time:
        return batch
    return first(
        batch, bisect_right(range(count), time, key=lambda n: decode_at(batch.events, n).time)
    )


def first(batch: Batch, end: int) -> Batch:
    """Return the first records of a batch; bytes that accompany later ones are harmless."""
    cut = Batch(batch.events[: end * EVENT_SIZE], batch.blobs)
    runners = [(event.pid, event.tid) for event in decode(cut) if event.kind & KIND == OPEN]
    cut.entries, known = len(runners), set(runners)
    cut.threads = tuple(each for each in batch.threads if (each.pid, each.tid) in known)
    return cut
