"""Calls of damaged captures of which probes are left out: none is shown to end as it did not."""

from __future__ import annotations

import gzip
import io
import random
import struct
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.errors import CaptureError
from lbtrace.model import CLOSE, KIND, Event, Integer, Losses
from lbtrace.model.wire import EVENT
from lbtrace.probes import ROLES
from tests.chunks import HEADER, chunks, joined

CAPTURES = sorted((Path(__file__).resolve().parents[1] / "captures").glob("*.lbt.gz"))
CAPTURES = [path for path in CAPTURES if path.name != "count.lbt.gz"]  # it has no calls

INT = Integer("int", 4, True)

KIND_FIELD = Event.__struct_fields__.index("kind")

MOST = 24
"""Probes of a capture that are damaged, one after the other."""


def split(data):
    """The header of a capture, its plan and what follows."""
    (_, plan), *rest = chunks(data)
    return data[:HEADER], plan, rest


def with_plan(head, plan, rest):
    return joined(head, [(b"PLAN", msgspec.msgpack.encode(plan)), *rest])


def damage_role(probe):
    probe["role"] = 5


def rename_role(probe):
    probe["role"] = "q" + probe["role"][1:]


def lose_function(probe):
    probe["function"] = 1 << 20


def lose_binary(probe):
    probe["binary"] = 77


DAMAGES = (damage_role, rename_role, lose_function, lose_binary)


def ends(path, **how):
    """How calls end, by their thread and start."""
    found = {}
    with read_capture(str(path), **how) as capture:
        for call in capture.calls():
            key = call.tid, call.start, call.name
            result = "" if call.result is None else str(call.result)
            found[key] = call.end, call.duration, result
        return found, capture.left_out


def check(shown, true, what):
    for key, (end, duration, result) in shown.items():
        # A marker that opens a call is a point where none that closes it is traced.
        if end in ("open", "point") or key not in true:
            assert end != "point" or key not in true or ":" in key[2], (what, key)
            continue
        assert (end, duration) == true[key][:2], (what, key)
        assert result == true[key][2], (what, key)


@pytest.mark.parametrize("recorded", CAPTURES, ids=lambda path: path.name.partition(".")[0])
def test_each_probe_in_turn(recorded: Path, tmp_path: Path) -> None:
    data = gzip.decompress(recorded.read_bytes())
    path = tmp_path / "x.lbt"
    path.write_bytes(data)
    true, _ = ends(path)
    head, payload, rest = split(data)
    plan = msgspec.msgpack.decode(payload)
    count = len(plan["probes"])
    numbers = range(count) if count <= MOST else random.Random(count).sample(range(count), MOST)
    for number in numbers:
        for damage in DAMAGES:
            plan = msgspec.msgpack.decode(payload)
            damage(plan["probes"][number])
            path.write_bytes(with_plan(head, plan, rest))
            shown, left_out = ends(path, salvage=True)
            assert left_out or damage is lose_function, (number, damage)  # some have none
            check(shown, true, (number, damage.__name__))


@pytest.mark.parametrize("recorded", CAPTURES, ids=lambda path: path.name.partition(".")[0])
def test_a_plan_that_is_cut(recorded: Path, tmp_path: Path) -> None:
    """Events name probes that it no longer has."""
    data = gzip.decompress(recorded.read_bytes())
    path = tmp_path / "x.lbt"
    path.write_bytes(data)
    true, _ = ends(path)
    head, payload, rest = split(data)
    plan = msgspec.msgpack.decode(payload)
    for count in {1, len(plan["probes"]) // 2, len(plan["probes"]) - 1} - {0}:
        cut = {**plan, "probes": plan["probes"][:count]}
        path.write_bytes(with_plan(head, cut, rest))
        check(ends(path, salvage=True)[0], true, count)


def with_other_kinds(rest, rng, kinds):
    """The chunks of a capture, in which one event in eight has another kind than it had, with the
    right checksum."""
    made = []
    for tag, content in rest:
        payload = bytearray(content)
        if tag == b"EVTS":
            events, _, threads = struct.unpack_from("<III", payload)
            for start in range(12 + threads, 12 + threads + events, EVENT.size):
                record = [*EVENT.unpack_from(payload, start)]
                if not rng.randrange(8):
                    kind = record[KIND_FIELD] & KIND
                    record[KIND_FIELD] += rng.choice([k for k in kinds if k != kind]) - kind
                    EVENT.pack_into(payload, start, *record)
        made.append((tag, bytes(payload)))
    return made


@pytest.mark.parametrize("recorded", CAPTURES, ids=lambda path: path.name.partition(".")[0])
def test_kinds_of_events(recorded: Path, tmp_path: Path) -> None:
    data = gzip.decompress(recorded.read_bytes())
    path = tmp_path / "x.lbt"
    path.write_bytes(data)
    true, _ = ends(path)
    head, payload, rest = split(data)
    plan = msgspec.msgpack.decode(payload)
    kinds = [*range(1, 4), *range(10, 16)]
    rng = random.Random(recorded.name)
    for each in range(8):
        path.write_bytes(with_plan(head, plan, with_other_kinds(rest, rng, kinds)))
        check(ends(path, salvage=True)[0], true, each)


@pytest.mark.parametrize("recorded", CAPTURES, ids=lambda path: path.name.partition(".")[0])
def test_a_bit_of_the_plan(recorded: Path, tmp_path: Path) -> None:
    """A call may get another name or value, but it did not end by an exception for that."""
    data = gzip.decompress(recorded.read_bytes())
    path = tmp_path / "x.lbt"
    path.write_bytes(data)
    true = {key[:2]: end for key, (end, *_) in ends(path)[0].items()}
    rng, size = random.Random(5), int.from_bytes(data[16:20], "little")
    for _ in range(40):
        place = rng.randrange(32, 32 + size)
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            shown, _ = ends(path, salvage=True)
        except CaptureError:
            continue
        for key, (end, *_) in shown.items():
            assert end != "unwound" or true.get(key[:2], end) == "unwound", (place, key)


def test_a_loop_and_another_call_are_not_mistaken(script, make_plan, tmp_path):
    """Of a function that jumps back to its first instruction a further hit is no new call, unless
    the former one has returned by an exit whose probe is left out."""
    plan = make_plan(("f", (INT,), INT))
    opens, closes = plan.probes
    closes = replace(closes, source="uprobe")
    lost = replace(closes, function=9)
    functions = (replace(plan.functions[0], loops_to_entry=True, returns="sites"),)
    stream = io.BytesIO()
    writer = CaptureWriter(stream, replace(plan, functions=functions, probes=(opens, closes, lost)))
    for _ in range(200):  # enough for the native matcher
        script.enter(0, 0x1000, 1)
        script.hit(2, 0x1000, kind=CLOSE)
        script.enter(0, 0x1000, 2)
        script.leave(0, 0x1000, 22)
    writer.write(script.batch())
    writer.finish(Losses())
    path = tmp_path / "x.lbt"
    path.write_bytes(stream.getvalue())
    found, _ = ends(path, salvage=True)
    assert len(found) == 200
    assert {end for end, *_ in found.values()} == {"open"}


def test_a_call_that_another_thread_may_have_continued(script, make_plan, tmp_path):
    """A probe that is left out may have reported stacks: a coroutine continues in another thread,
    returns there, and makes another call of the same frame, which returns in the first one."""
    plan = make_plan(("f", (INT,), INT))
    lost = replace(plan.probes[0], role="of the future", function=-1)
    stream = io.BytesIO()
    writer = CaptureWriter(stream, replace(plan, probes=(*plan.probes, lost)))
    script.enter(0, 0x1000, 1, tid=7)
    script.hit(2, 0x900, tid=8)
    script.leave(0, 0x1000, 11, tid=8)
    script.enter(0, 0x1000, 2, tid=8)
    script.leave(0, 0x1000, 22, tid=7)
    writer.write(script.batch())
    writer.finish(Losses())
    path = tmp_path / "x.lbt"
    path.write_bytes(stream.getvalue())
    found, _ = ends(path, salvage=True)
    assert [end for end, *_ in found.values()] == ["open", "open"]


def test_roles_are_what_the_damage_changes() -> None:
    assert not {"q" + role[1:] for role in ROLES} & set(ROLES)
