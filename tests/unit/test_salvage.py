"""What is read of damaged captures, and what is said of the rest."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys

import msgspec
import pytest

from lbtrace.capture import CaptureWriter, check_plan
from lbtrace.capture.layout import decode_plan, encode_plan
from lbtrace.commands import main
from lbtrace.errors import CaptureError
from lbtrace.model import Enumeration, Integer, Losses, Record, Thread, Value
from tests.chunks import chunk, chunks, identity_of, joined, pieces

INT = Integer("int", 4, True)


@pytest.fixture
def parts(script, make_plan):
    """The parts of a capture: its header, its plan, three batches of two calls each, its losses,
    its end."""
    plan = make_plan(("fib", (INT,), INT), ("other", (INT,), None))
    stream = io.BytesIO()
    writer = CaptureWriter(stream, plan)
    for n in range(3):
        script.call(1, n)
        script.fib(1)
        script.ret(1, 0)
        writer.write(script.batch((Thread(5, 7, "prog"),)))
    writer.finish(Losses())
    return pieces(stream.getvalue())


@pytest.fixture
def export(tmp_path, capfd):
    def run(parts, *words):
        path = tmp_path / "x.lbt"
        path.write_bytes(b"".join(parts))
        status = main(["export", str(path), "--format", "jsonl", *words])
        out, err = capfd.readouterr()
        return status, [json.loads(line) for line in out.splitlines()], err

    return run


def names(records):
    return [record["name"] for record in records if record["type"] == "call"]


def test_a_damaged_chunk_is_left_out(parts, export):
    damaged = bytearray(parts[3])
    damaged[100] ^= 1
    parts[3] = bytes(damaged)
    status, records, err = export(parts)
    assert names(records) == ["fib", "other"]
    assert "interrupted" in err
    status, records, err = export(parts, "--salvage")
    assert status == 0
    assert names(records) == ["fib", "other"] * 2
    assert f"left out: 1 chunk of {len(damaged)} bytes in all: damaged" in err
    assert "nothing lost by the trace, but the capture is damaged" in err
    assert records[-1]["damaged"]
    assert export(parts, "--salvage", "--strict")[0] == 3


def test_a_chunk_of_a_wrong_length_is_passed(parts, export):
    for length in (5, 1 << 31):
        struct.pack_into("<I", mutated := bytearray(parts[3]), 4, length)
        _, records, err = export([*parts[:3], bytes(mutated), *parts[4:]], "--salvage")
        assert names(records) == ["fib", "other"] * 2
        assert f"{len(mutated):,} bytes" in err


def test_missing_bytes_are_passed(parts, export):
    parts[3] = parts[3][:60]
    assert names(export(parts, "--salvage")[1]) == ["fib", "other"] * 2


def test_calls_that_are_open_at_a_gap_end_open(script, make_plan, export):
    stream = io.BytesIO()
    writer = CaptureWriter(stream, make_plan(("f", (INT,), INT)))
    script.call(0, 1)
    script.call(0, 2)
    writer.write(script.batch())
    start = stream.tell()
    script.ret(0, 2)
    script.ret(0, 1)
    writer.write(script.batch())
    end = stream.tell()
    script.call(0, 3)
    script.ret(0, 3)
    writer.write(script.batch())
    writer.finish(Losses())
    data = bytearray(stream.getvalue())
    data[end - 1] ^= 1
    data[start + 20] ^= 1
    _, records, _ = export([bytes(data)], "--salvage")
    ends = [(r["args"][0]["value"], r["end"], r["depth"]) for r in records if r["type"] == "call"]
    assert ends == [(2, "open", 1), (1, "open", 0), (3, "returned", 0)]


@pytest.mark.parametrize("data", [b"", b"\x7fELF" + bytes(5000), b"x" * 11])
def test_what_holds_no_plan_is_refused(export, data):
    status, records, err = export([data], "--salvage")
    assert status == 1
    assert not records
    assert len(err.splitlines()) == 2


def test_what_cannot_be_read_back_is_not_recorded(make_plan):
    value = Value("v", Record("s", 8), 70)
    plan = make_plan(("f", (INT,), None))
    function = msgspec.structs.replace(plan.functions[0], parameters=(value,))
    with pytest.raises(CaptureError, match="function f, parameter v: its slot is 70 of 6"):
        check_plan(msgspec.structs.replace(plan, functions=(function,)))


def test_names_and_numbers_that_messagepack_cannot_hold(make_plan, parts, export):
    """Bytes that are not UTF-8 in a path or name, and 128-bit enumerators."""
    big = Enumeration("e", 16, False, ((1 << 100, "BIG"),))
    plan = make_plan(("f\udcff\udc80ü", (big,), None))
    check_plan(plan)
    assert decode_plan(encode_plan(plan)) == plan
    stream = io.BytesIO()
    CaptureWriter(stream, plan)
    kind, payload = next(chunks(stream.getvalue()))
    parts[1] = chunk(kind, payload, 0, identity=identity_of(b"".join(parts)))
    status, records, _ = export(parts, "--salvage")
    assert status == 0
    assert names(records)[0] == "f\udcff\udc80ü"


def test_a_file_that_ends_anywhere_in_its_head(parts, export):
    for length in range(1, 26):
        status, _, error = export([b"".join(parts)[:length]], "--salvage")
        assert status == 1
        assert len(error.splitlines()) == 2, error


def test_a_capture_that_is_cut_short_meanwhile_is_salvaged(parts, tmp_path):
    path = tmp_path / "cut.lbt"
    plan, first, *rest = chunks(b"".join(parts))
    path.write_bytes(joined(parts[0], [plan, *[first] * 200, *rest]))
    script = (
        "import os, sys\n"
        "from lbtrace.capture import read_capture\n"
        "with read_capture(sys.argv[1], salvage=True) as capture:\n"
        "    batches = capture.batches()\n"
        "    next(batches)\n"
        "    os.truncate(sys.argv[1], 5000)\n"
        "    print(len(list(batches)), capture.complete, len(capture.left_out))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    count, complete, left_out = ended.stdout.split()
    assert int(count) < 200
    assert (complete, left_out) == ("False", "1")


@pytest.mark.parametrize("kind", [b"PLAN", b"EVTS", b"LOSS", b"NEWS"])
def test_what_a_chunk_claims_costs_neither_memory_nor_time(kind, parts, tmp_path):
    path = tmp_path / "claims.lbt"
    before = parts[:1] if kind == b"PLAN" else parts[:3]
    path.write_bytes(b"".join(before) + struct.pack("<4sIIII", kind, 1 << 29, 2, 1, 1))
    os.truncate(path, 3 << 30)  # with a hole at its end
    limit = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (120 << 20,) * 2)\n"
    script = f"{limit}import sys\nfrom lbtrace.commands import main\nsys.exit(main(sys.argv[1:]))"
    for words in ([], ["--salvage"]):
        command = [sys.executable, "-c", script, "export", str(path), "--format", "jsonl", *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == (1 if kind == b"PLAN" else 0), ended.stderr
        assert ended.stdout.count('"type":"call"') == (0 if kind == b"PLAN" else 2)
        assert "Traceback" not in ended.stderr


def test_a_chunk_that_is_missing_is_noticed(parts, export):
    for kept in ([*parts[:3], *parts[4:]], [*parts[:2], *parts[3:]]):
        status, records, err = export(kept)
        assert status == 0
        assert "interrupted" in err
        _, records, err = export(kept, "--salvage")
        assert names(records) == ["fib", "other"] * 2
        assert "left out: 1 chunk: missing" in err


def test_any_damage_of_a_bit_is_noticed(parts, export):
    """In the file's header and in what follows the plan, which has its checksum."""
    data = b"".join(parts)
    _, whole, _ = export(parts)
    plan = range(len(parts[0]), len(parts[0]) + len(parts[1]))
    places = [n for n in range(len(data)) if n not in plan]
    for place in random.sample(places, 60):
        damaged = bytearray(data)
        damaged[place] ^= 1 << random.randrange(8)
        status, records, err = export([bytes(damaged)])
        assert status == 1 or "interrupted" in err, place
        _, records, err = export([bytes(damaged)], "--salvage")
        told = any(
            words in err for words in ("left out", "of the capture format", "is not a capture")
        )
        assert records == whole or told, place
