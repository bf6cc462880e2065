"""A file that is not exactly one capture, from its header to its end: what is there once more, of
another capture, in another place or after the end is said, and never shown as calls of this one."""

from __future__ import annotations

import io
import json

import pytest

from lbtrace.capture import CaptureWriter
from lbtrace.commands import main
from lbtrace.model import Integer, Losses, Thread
from tests.chunks import pieces

INT = Integer("int", 4, True)


@pytest.fixture
def record(script, make_plan):
    """Writes a capture of calls of ``name``, one in each of three batches."""

    def write(name):
        stream = io.BytesIO()
        writer = CaptureWriter(stream, make_plan((name, (INT,), INT)))
        for n in range(3):
            script.call(0, n)
            script.ret(0, n)
            writer.write(script.batch((Thread(5, 7, "prog"),)))
        writer.finish(Losses())
        return pieces(stream.getvalue())

    return write


@pytest.fixture
def ours(record):
    return record("ours")


@pytest.fixture
def export(tmp_path, capfd):
    """The status of a strict export, the arguments of the calls it shows by their names, its last
    record, and what it says."""

    def run(parts, *words):
        path = tmp_path / "x.lbt"
        path.write_bytes(b"".join(parts))
        status = main(["export", str(path), "--format", "jsonl", "--strict", *words])
        out, err = capfd.readouterr()
        records = [json.loads(line) for line in out.splitlines()]
        calls = [
            (record["name"], record["args"][0]["value"])
            for record in records
            if record["type"] == "call"
        ]
        return status, calls, records[-1] if records else {}, err

    return run


ALL = [("ours", n) for n in range(3)]


def damaged(part):
    return part[:-1] + bytes([part[-1] ^ 1])


def test_a_capture_after_another_is_not_read(ours, record, export):
    others = record("theirs")
    for first in (ours, [*ours[:3], *ours[4:]], [*ours[:3], damaged(ours[3]), *ours[4:]]):
        whole = first is ours
        for second in (others, others[1:], others[2:], ours[:1] + ours[1:]):
            status, calls, last, err = export([*first, *second], "--salvage")
            assert status == 3
            assert calls == (ALL if whole else [ALL[0], ALL[2]])
            assert "after its end" in err
            assert "left out: 1 chunk" in err or whole
            status, calls, last, err = export([*first, *second])
            assert (status, calls) == (3, ALL if whole else ALL[:1])
            assert not whole or "after its end" in err
    size = sum(map(len, others))
    status, calls, last, err = export([*ours, *others])
    assert f"left out: another capture after its end, which tail -c {size} yields\n" in err
    assert last["damaged"]
    assert not last["interrupted"]


def test_what_follows_the_end(ours, export):
    for words in ([], ["--salvage"]):
        for more in (b"\0", b"\n" * 50, b"".join(ours[:2]), ours[1] + ours[2]):
            status, calls, last, err = export([*ours, more], *words)
            assert (status, calls) == (3, ALL)
            assert "left out: " in err
            assert last["damaged"]
