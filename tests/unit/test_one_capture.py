"""A file that is not exactly one capture, from its header to its end: what is there once more, of
another capture, in another place or after the end is said, and never shown as calls of this one."""

from __future__ import annotations

import io
import json
from itertools import permutations

import pytest

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.commands import main
from lbtrace.model import Integer, Losses, Thread
from tests.chunks import identity_of, pieces

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


def test_what_is_missing_is_not_outweighed_by_what_is_there_twice(ours, export):
    head, plan, *rest = ours
    for more in ([plan], [plan, plan], [plan, rest[-1]]):
        for batch in ([], [damaged(rest[1])]):
            given = [head, plan, rest[0], *batch, *rest[2:], *more]
            status, calls, last, err = export(given, "--salvage")
            assert (status, calls) == (3, [ALL[0], ALL[2]])
            assert last["damaged"]
            assert "left out: 1 chunk" in err
            assert "there once more" in err
            assert "-1" not in err
    without_losses = [head, plan, *rest[:3], rest[4], plan]
    assert export(without_losses, "--salvage")[0] == 3
    assert "left out: 1 chunk: missing" in export(without_losses, "--salvage")[3]
    status, calls, last, err = export([head, plan, *rest, plan], "--salvage")
    assert (status, calls) == (3, ALL)
    assert "left out: 1 chunk that is there once more\n" in err
    assert "missing" not in err


def test_a_capture_after_another_is_not_read(ours, record, export):
    others = record("theirs")
    for first in (ours, [*ours[:3], *ours[4:]], [*ours[:3], damaged(ours[3]), *ours[4:]]):
        whole = first is ours
        for second in (others, others[1:], others[2:], ours[:1] + ours[1:]):
            status, calls, last, err = export([*first, *second], "--salvage")
            twice = second[-1] == ours[-1]
            assert status == 3
            assert calls == (ALL if whole or twice else [ALL[0], ALL[2]])
            assert ("once more" if twice else "of another capture") in err
            assert ("left out: 1 chunk" in err and "-1" not in err) or whole or twice
            status, calls, last, err = export([*first, *second])
            assert (status, calls) == (3, ALL if whole else ALL[:1])
            assert not whole or "after its end" in err
    size = sum(map(len, others))
    status, calls, last, err = export([*ours, *others])
    assert f"left out: another capture after its end, which tail -c {size} yields\n" in err
    assert last["damaged"]
    assert not last["interrupted"]


def test_a_chunk_of_another_capture_in_the_place_of_one(ours, record, export):
    """Even if that has the same plan."""
    for name in ("ours", "theirs"):
        others = record(name)
        for n in range(2, len(ours) - 1):
            mixed = [*ours[:n], others[n], *ours[n + 1 :]]
            status, calls, last, err = export(mixed)
            assert status == 3
            assert last["interrupted"]
            assert calls == ALL[: n - 2]
            status, calls, last, err = export(mixed, "--salvage")
            assert status == 3
            assert calls == [call for at, call in enumerate(ALL, 2) if at != n]
            assert "left out: 1 chunk: missing\n" in err
            assert "left out: 1 chunk of another capture\n" in err


def test_batches_are_not_read_with_the_plan_of_another(ours, record, export):
    others = record("theirs")
    status, calls, last, err = export([ours[0], others[1], *ours[2:]])
    assert (status, calls, last["interrupted"]) == (3, [], True)
    status, calls, last, err = export([ours[0], others[1], *ours[2:]], "--salvage")
    assert (status, calls) == (3, [])
    assert "5 chunks of another capture" in err


def test_the_plan_may_stand_anywhere(ours, export):
    head, plan, *rest = ours
    whole = export([head, plan, *rest], "--salvage")
    assert whole[0] == 0
    for order in permutations([plan, *rest], len(rest) + 1):
        if order[0] != plan:
            assert export([head, *order], "--salvage") == whole
            status, _calls, _, err = export([head, *order])
            assert status == 1
            assert "lbtrace export --salvage" in err
        else:
            assert export([head, *order], "--salvage") == whole


def test_what_follows_the_end(ours, export):
    for words in ([], ["--salvage"]):
        for more in (b"\0", b"\n" * 50, b"".join(ours[:2]), ours[1] + ours[2]):
            status, calls, last, err = export([*ours, more], *words)
            assert (status, calls) == (3, ALL)
            assert "left out: " in err
            assert last["damaged"]


def test_a_plan_whose_identity_is_damaged(ours, export):
    """Only its head is: its content, and what follows, can be trusted."""
    head, plan, *rest = ours
    for bit in range(32):
        flipped = bytearray(plan)
        flipped[12 + bit // 8] ^= 1 << bit % 8
        status, calls, _last, err = export([head, bytes(flipped), *rest], "--salvage")
        assert (status, calls) == (3, ALL)
        assert "left out: the head of the plan: damaged\n" in err


def test_identities_differ(ours, record):
    assert identity_of(b"".join(ours)) != identity_of(b"".join(record("ours")))


def test_it_can_be_read_twice(ours, record, tmp_path):
    path = tmp_path / "x.lbt"
    path.write_bytes(b"".join([*ours, *record("theirs")]))
    for salvage in (False, True):
        with read_capture(str(path), salvage=salvage) as capture:
            for _ in range(2):
                assert len([*capture.batches()]) == 3
                assert capture.complete
                assert len(capture.left_out) == 1


def test_many_headers_cost_no_time(ours, export):
    header = ours[0]
    _, calls, _, err = export([*ours[:4], *[header] * 200_000, *ours[4:]], "--salvage")
    assert calls == ALL
    assert "the beginning of another capture" in err
    _, calls, _, err = export([*ours[:2], header], "--salvage")
    assert calls == []
    assert "the beginning of another capture" in err
