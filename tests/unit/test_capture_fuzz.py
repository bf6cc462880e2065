"""Damaged captures: nothing but `CaptureError`, or values that say they cannot be decoded.

The checksums are made right again, so that what is damaged reaches those who decode it.
"""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import msgspec

from lbtrace.capture import read_capture
from lbtrace.commands.output import render
from lbtrace.errors import CaptureError
from lbtrace.sinks import FORMATS
from tests.chunks import chunks, joined

CAPTURES = sorted((Path(__file__).resolve().parents[1] / "captures").glob("*.lbt.gz"))

NUMBERS = (0, 1, -1, 2, 3, 7, 16, 17, 64, 255, 1 << 20, 1 << 31, 1 << 63, (1 << 64) - 1, -(1 << 63))
TEXTS = ("", "\x1b[2J", "\u202e", "x" * 300, "integer", "record", "string", "vector", "variants")
TAGS = "integer word character boolean pointer float enumeration record array string vector"
TAGS = (*TAGS.split(), "variants", "slice", "interface", "void", "opaque")


def nodes(data, found):
    """Every place in a plan: what holds it, and by which key."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        found.append((data, key))
        if isinstance(value, (dict, list)):
            nodes(value, found)
    return found


def mutate_plan(rng, payload):
    plan = msgspec.msgpack.decode(payload)
    for _ in range(rng.randint(1, 4)):
        places = nodes(plan, [])
        holder, key = rng.choice(places)
        value = holder[key]
        if key == "type" and isinstance(value, str):
            holder[key] = rng.choice(TAGS)
        elif rng.random() < 0.1 and isinstance(holder, dict):
            del holder[key]
        elif rng.random() < 0.2:
            other, at = rng.choice(places)
            holder[key] = msgspec.msgpack.decode(msgspec.msgpack.encode(other[at]))
        elif isinstance(value, (bool, int)):
            holder[key] = rng.choice(NUMBERS)
        elif isinstance(value, str):
            holder[key] = rng.choice(TEXTS)
        elif isinstance(value, list):
            holder[key] = value[: rng.randrange(len(value) + 1)] + value[:1] * rng.randint(0, 2)
    return msgspec.msgpack.encode(plan)


def mutate_bytes(rng, payload):
    mutated = bytearray(payload)
    for _ in range(rng.randint(1, 8)):
        if mutated:
            mutated[rng.randrange(len(mutated))] = rng.choice(
                (0, 1, 0x7F, 0xFF, rng.randrange(256))
            )
    return bytes(mutated)


def mutate(rng, data):
    parts = list(chunks(data))
    number = 0 if rng.random() < 0.6 else rng.randrange(len(parts))
    kind, payload = parts[number]
    change = mutate_plan if kind == b"PLAN" and rng.random() < 0.8 else mutate_bytes
    parts[number] = kind, change(rng, payload)
    return joined(data, parts)


def export(path, salvage):
    """All that can be shown of a capture, in a format after the other; None where it is refused."""
    shown = []
    for row in FORMATS.values():
        if row.is_capture:
            continue
        stream = io.StringIO()
        try:
            with read_capture(str(path), salvage=salvage) as capture:
                sink = row.load()(stream, capture.plan)
                account = capture.losses, not capture.complete
                render(capture.plan, capture.batches(), sink, lambda account=account: account)
        except CaptureError:
            return None
        shown.append(stream.getvalue())
    return shown


def test_damaged_captures(tmp_path):
    seed = random.randrange(1 << 60)
    rng = random.Random(seed)
    path = tmp_path / "x.lbt"
    for round in range(120):
        original = gzip.decompress(rng.choice(CAPTURES).read_bytes())
        path.write_bytes(mutate(rng, original))
        for salvage in (False, True):
            try:
                shown = export(path, salvage)
            except BaseException as error:
                raise AssertionError(f"seed {seed}, round {round}, {salvage=}") from error
            for text in shown or ():
                assert not {c for c in text if ord(c) < 32 and c != "\n"}, (seed, round)
