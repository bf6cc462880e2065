"""Callers of calls that may be slow, where threads send theirs at the same time."""

from __future__ import annotations

from typing import Any

from lbtrace.calls.slow import SlowCalls
from lbtrace.model import CALLERS, CLOSE, KIND, OPEN, Batch, Integer
from lbtrace.model.wire import EVENT, decode_all

INT = Integer("int", 4, True)
FIRST, SECOND = 7, 8


def event(kind: int, time: int, tid: int, blob: bytes = b"") -> bytes:
    probe = 1 if kind == CLOSE else 0
    return EVENT.pack(time, 0x1000, 0, probe, 5, tid, kind, 0, 0, len(blob), *[0] * 6)


def test_each_event_keeps_the_callers_of_its_thread(make_plan: Any) -> None:
    """What two processors write into the ring lies there in any order."""
    slow = SlowCalls(make_plan(("f", (), INT)), 1000)
    frames = {FIRST: b"\1\0\0\0", SECOND: b"\2\0\0\0\3\0\0\0"}
    callers = [event(CALLERS, 10 * tid, tid, blob) for tid, blob in frames.items()]
    begun = [event(OPEN, 10 * tid, tid) for tid in frames]
    ended = [event(CLOSE, 9000, tid) for tid in frames]
    batch = Batch(b"".join((*callers, *begun, *ended)), b"".join(frames.values()), ())
    found, at = [], 0
    for shown in slow.filter([batch]):
        assert isinstance(shown, Batch)
        for each in decode_all(shown.events):
            found.append((each.tid, each.kind & KIND, bytes(shown.blobs[at : at + each.blob])))
            at += each.blob
        at = 0
    assert found == [
        each
        for tid, blob in frames.items()
        for each in ((tid, CALLERS, blob), (tid, OPEN, b""), (tid, CLOSE, b""))
    ]
