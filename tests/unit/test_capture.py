from __future__ import annotations

import io
import struct

import pytest

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.errors import CaptureError, OutputError
from lbtrace.model import Batch, Losses, Thread
from tests.chunks import chunks, joined, pieces


@pytest.fixture
def batches(script):
    made = []
    for n in (3, 4, 5):
        script.fib(n)
        made.append(script.batch((Thread(5, 7, "fib"),)))
    return made


@pytest.fixture
def capture_bytes(fib_plan, batches):
    stream = io.BytesIO()
    writer = CaptureWriter(stream, fib_plan)
    ends = []
    for batch in batches:
        writer.write(batch)
        ends.append(stream.tell())
    writer.finish(Losses(ring_full_entry=3))
    return stream.getvalue(), ends


@pytest.fixture
def capture_file(tmp_path):
    def write(data):
        path = tmp_path / "x.lbt"
        path.write_bytes(data)
        return str(path)

    return write


def plain(batch):
    return bytes(batch.events), bytes(batch.blobs), batch.threads


def test_what_is_written_is_read(capture_bytes, capture_file, fib_plan, batches):
    with read_capture(capture_file(capture_bytes[0])) as capture:
        assert capture.plan == fib_plan
        assert [plain(b) for b in capture.batches()] == [plain(b) for b in batches]
        assert capture.complete
        assert capture.losses == Losses(ring_full_entry=3)
        assert capture.position == capture.size


def test_notes_are_read(capture_file, fib_plan, batches):
    notes = ["x was replaced", "a path \udcff"]
    stream = io.BytesIO()
    writer = CaptureWriter(stream, fib_plan)
    for note in notes:
        writer.note(note)
    writer.finish(Losses())
    with read_capture(capture_file(stream.getvalue())) as capture:
        for _ in range(2):
            assert not list(capture.batches())
            assert capture.complete
            assert capture.remarks == notes


def test_blobs_and_memoryviews(capture_file, fib_plan):
    stream = io.BytesIO()
    CaptureWriter(stream, fib_plan).write(Batch(memoryview(bytes(192)), memoryview(b"text")))
    with read_capture(capture_file(stream.getvalue())) as capture:
        assert [plain(b) for b in capture.batches()] == [(bytes(192), b"text", ())]
        assert not capture.complete


def test_cut_anywhere_it_is_readable_to_the_last_whole_batch(capture_bytes, capture_file):
    data, ends = capture_bytes
    plan_end = sum(map(len, pieces(data)[:2]))
    for length in range(len(data)):
        path = capture_file(data[:length])
        if length < plan_end:
            with pytest.raises(CaptureError):
                read_capture(path)
            continue
        with read_capture(path) as capture:
            assert len(list(capture.batches())) == sum(end <= length for end in ends)
            assert not capture.complete


def test_a_torn_batch_ends_it(capture_bytes, capture_file):
    data, ends = capture_bytes
    torn = bytearray(data)
    torn[ends[1] - 5] ^= 1
    with read_capture(capture_file(bytes(torn))) as capture:
        assert len(list(capture.batches())) == 1
        assert not capture.complete


def test_unknown_chunks_are_passed_over(capture_bytes, capture_file):
    plan, first, *rest = chunks(capture_bytes[0])
    given = joined(capture_bytes[0], [plan, first, (b"LATR", b"abc"), *rest])
    with read_capture(capture_file(given)) as capture:
        assert len(list(capture.batches())) == 3
        assert capture.complete


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: b"", "not a capture"),
        (lambda d: b"\x7fELF" + d, "not a capture"),
        (lambda d: d.replace(b"\r\n", b"\n", 1), "not a capture"),
        (lambda d: d[:8] + struct.pack("<I", 8) + d[12:], "version 8"),
        (lambda d: d[:8] + struct.pack("<I", 6) + d[12:], "version 6"),
        (lambda d: d[:40] + b"?" + d[41:], "plan"),
    ],
)
def test_what_is_no_capture_is_refused(capture_bytes, capture_file, change, message):
    with pytest.raises(CaptureError, match=message) as raised:
        read_capture(capture_file(change(capture_bytes[0])))
    assert raised.value.hint


def test_files_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "missing.lbt", tmp_path, "/dev/null"):
        with pytest.raises(CaptureError):
            read_capture(str(path))


def test_a_full_disk_is_an_output_error(fib_plan, batches):
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OutputError, match="space"):
        CaptureWriter(full, fib_plan)


def test_partial_writes_are_continued(capture_bytes, fib_plan, batches):
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data[:7]))

    stream = Slow()
    writer = CaptureWriter(stream, fib_plan)
    for batch in batches:
        writer.write(batch)
    writer.finish(Losses(ring_full_entry=3))
    assert [*chunks(stream.getvalue())] == [*chunks(capture_bytes[0])]
