"""Composed values as text, as JSON and as Racket would print them; wide floats."""

from __future__ import annotations

import struct

import pytest

from lbtrace.model import (
    Address,
    Argument,
    Datum,
    Elements,
    Fields,
    Float,
    Symbol,
    Text,
    Unreadable,
    Variant,
)
from lbtrace.sinks.jsonl import json_value
from lbtrace.sinks.racket import _write
from lbtrace.values import decoder, text

NONE = Variant("None")
SOME = Variant("Some", (Argument("", 5),))
RECT = Variant("Rect", (Argument("w", 3), Argument("h", 4)))
PAIR = Variant("Pair", (Argument("", True), Argument("", Text(b"x", 1))))


@pytest.mark.parametrize(
    ("datum", "shown", "json", "racket"),
    [
        (NONE, "None", '"None"', "(None)"),
        (SOME, "Some(5)", '{"Some": 5}', "(Some 5)"),
        (RECT, "Rect{w=3, h=4}", '{"Rect": {"w": 3, "h": 4}}', "(Rect 3 4)"),
        (PAIR, 'Pair(true, "x")', '{"Pair": [true, "x"]}', '(Pair #t "x")'),
        (Symbol("space::f"), "space::f", '"space::f"', "#<procedure:space::f>"),
        (Elements((1, 2), 1000), "[1, 2, … 1,000 more]", '[1, 2],"length":1002', "(vector 1 2 …)"),
        (Elements((SOME, NONE)), "[Some(5), None]", '[{"Some": 5}, "None"]', None),
        (Fields("(u8, u8)", (Argument("", 1), Argument("", 2))), "(1, 2)", "[1, 2]", None),
        (1 << 100, str(1 << 100), str(1 << 100), str(1 << 100)),
        (Address(16), "0x10", '"0x10"', "0x10"),
    ],
)
def test_written(datum: Datum, shown: str, json: str, racket: str | None) -> None:
    assert text(datum) == shown
    assert json_value(datum) == json
    if racket is not None:
        assert _write(datum) == racket


@pytest.mark.parametrize(
    ("size", "raw", "value"),
    [
        (10, "00000000000000a0ff bf", -1.25),  # Intel SDM volume 1, section 4.2.2
        (10, "0000000000000080ff3f", 1.0),
        (10, "00000000000000000000", 0.0),
        (10, "0000000000000080ff7f", float("inf")),
        (16, "0000000000000000000000000000ff3f", 1.0),  # IEEE 754 binary128
        (16, "00000000000000000000000000401cc0", -(1.25 * 2.0**29)),
    ],
)
def test_wide_floats(size: int, raw: str, value: float) -> None:
    number = int.from_bytes(bytes.fromhex(raw), "little")
    assert decoder(Float("long double", size))(number) == value


def test_what_no_double_holds_is_shown() -> None:
    raw = int.from_bytes(bytes.fromhex("0000000000000080fe7f"), "little")
    assert decoder(Float("long double", 10))(raw) == Unreadable("more than a double holds")
    nan = int.from_bytes(bytes.fromhex("00000000000000c0ff7f"), "little")
    found = decoder(Float("long double", 10))(nan)
    assert isinstance(found, float)
    assert found != found  # noqa: PLR0124 - only NaN is not itself


def test_halves_and_doubles_are_what_struct_says() -> None:
    for size, code in ((2, "<e"), (4, "<f"), (8, "<d")):
        raw = int.from_bytes(struct.pack(code, 1.5), "little")
        assert decoder(Float("", size))(raw) == 1.5
