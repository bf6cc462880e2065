"""Captures without the counts of what was lost: their events say some of it."""

from __future__ import annotations

import io
import json

import pytest

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.commands import main
from lbtrace.model import Batch, Integer, Losses, Thread, wire
from tests.chunks import pieces

INT = Integer("int", 4, True)


@pytest.fixture
def parts(script, make_plan):
    """A capture of two batches, each with a report of a thread: header, plan, two batches, the
    counts, the end."""
    stream = io.BytesIO()
    writer = CaptureWriter(stream, make_plan(("f", (INT,), INT)))
    for n in range(2):
        script.call(0, n)
        script.ret(0, n)
        batch = script.batch((Thread(5, 7, "prog"),))
        report = wire.losses(1 << 40, 5, 7, 0, (1, 4, 3 + n, 2))
        writer.write(Batch(bytes(batch.events) + report, batch.blobs, batch.threads))
    writer.finish(Losses(ring_full_entry=9, ring_full_return=8, ring_full_point=7, nested_miss=2))
    return pieces(stream.getvalue())


@pytest.fixture
def export(tmp_path, capfd):
    def run(parts, *words):
        path = tmp_path / "x.lbt"
        path.write_bytes(b"".join(parts))
        status = main(["export", str(path), "--format", "jsonl", "--strict", *words])
        out, err = capfd.readouterr()
        with read_capture(path, salvage="--salvage" in words) as capture:
            assert len([*capture.calls()]) == out.count('"type":"call"')
            last = json.loads(out.splitlines()[-1])
            assert capture.losses_known == last.get("lost_known", True)
            for cause, number in last["lost"].items():
                assert getattr(capture.losses, cause) == number
        return status, last, err

    return run


def test_without_counts_the_reports_count(parts, export):
    status, last, err = export(parts[:-2])
    assert (status, last["interrupted"], last["lost_known"]) == (3, True, False)
    lost = {cause: number for cause, number in last["lost"].items() if number}
    assert lost == {"ring_full_entry": 8, "ring_full_return": 7, "ring_full_point": 6}
    assert "2 calls in 1 thread of 1 process, at least 21 events lost\n" in err
    assert "its counts of lost events and values are missing" in err


def test_salvage_without_counts(parts, export):
    damaged = bytearray(parts[4])
    damaged[-1] ^= 1
    for counts in (b"", bytes(damaged)):
        status, last, err = export([*parts[:4], counts, parts[5]], "--salvage")
        assert (status, last["damaged"], last["lost_known"]) == (3, True, False)
        assert sum(last["lost"].values()) == 21
        assert "at least 21 events lost by the trace, but the capture is damaged" in err


def test_counts_hold_more_than_the_batches_that_are_left(parts, export):
    _, last, err = export([*parts[:3], *parts[4:]], "--salvage")
    assert (sum(last["lost"].values()), "lost_known" in last) == (26, False)
    assert "26 events lost by the trace, but the capture is damaged" in err


def test_without_counts_and_reports_nothing_is_known(script, make_plan, export):
    stream = io.BytesIO()
    writer = CaptureWriter(stream, make_plan(("f", (INT,), INT)))
    script.call(0, 1)
    script.ret(0, 1)
    writer.write(script.batch((Thread(5, 7, "prog"),)))
    cut = len(stream.getvalue())
    writer.finish(Losses())
    status, last, err = export([stream.getvalue()[:cut]])
    assert (status, last["lost_known"], "nothing lost" in err) == (3, False, False)
    assert "1 call in 1 thread of 1 process, losses not known\n" in err
    *_, end = pieces(stream.getvalue())
    status, last, err = export([stream.getvalue()[:cut], end], "--salvage")
    assert (status, last["lost_known"], "nothing lost" in err) == (3, False, False)
    assert "losses not known, and the capture is damaged\n" in err
