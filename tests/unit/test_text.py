"""What reaches a terminal."""

from __future__ import annotations

import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbtrace.commands.streams import has_colors, obeys
from lbtrace.model import Argument as A
from lbtrace.model import Call, Constant, Fields, Summary, Symbol, Thread, Unreadable, Variant
from lbtrace.sinks import FORMATS
from lbtrace.text import clean, is_clean, to_json

SHAPELESS = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of Unicode that hold no character with a shape of its own."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fib", "fib"),
        ("größe → 数", "größe → 数"),
        (r"C:\x", r"C:\x"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\\b\x07", r"a\\b\x07"),
        ("a\r\n\tb", r"a\r\n\tb"),
        ("\x7f\x9b", r"\x7f\u009b"),
        ("\u202e\u2066\u200f\u061c\u200b\ufeff", r"\u202e\u2066\u200f\u061c\u200b\ufeff"),
        ("\udcff\ud800", r"\xff\ud800"),
        ("\U000e0001\ue000\u3164", r"\U000e0001\ue000\u3164"),
        ("\u2028\xa0", r"\u2028\u00a0"),
        ("", ""),
    ],
)
def test_clean(text, shown):
    assert clean(text) == shown


@given(st.text(st.characters()))
def test_whatever_it_is(text):
    shown = clean(text)
    assert is_clean(shown)
    assert all(unicodedata.category(c) not in SHAPELESS for c in shown)
    assert clean(shown) == shown
    assert json.loads(to_json(text)) == text
    assert to_json(text).isascii()
    assert to_json(text).isprintable()


def test_no_two_texts_look_alike():
    """Of those in which something cannot be shown as it is."""
    seen = {}
    for text in ("\x1b", "\\x1b\x1b", "\x1b\\x1b", "\\\x1b", "\x1b\x1b", "\\\\\x1b"):
        assert seen.setdefault(clean(text), text) == text


def stream(terminal):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    return Stream()


@pytest.mark.parametrize(
    ("terminal", "term", "no_color", "colors"),
    [
        (True, "xterm", None, True),
        (True, "xterm", "", True),
        (True, "xterm", "1", False),
        (True, "dumb", None, False),
        (True, None, None, False),
        (False, "xterm", None, False),
    ],
)
def test_colors(monkeypatch, terminal, term, no_color, colors):
    for name, value in (("TERM", term), ("NO_COLOR", no_color)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert has_colors(stream(terminal)) is colors
    assert obeys(stream(terminal)) is (terminal and term == "xterm")


EVIL = "\x1b]0;x\x07\r\n\u202e\u200b\x9b\udcff\x7f|"


@pytest.mark.parametrize("name", [name for name, row in FORMATS.items() if not row.is_capture])
@pytest.mark.parametrize("plan_has_types", [False, True])
def test_sinks_show_nothing_raw(name, plan_has_types, make_plan):
    from msgspec.structs import replace

    plan = make_plan((EVIL, (), None))
    functions = tuple(replace(f, typed=plan_has_types) for f in plan.functions)
    out = io.StringIO()
    sink = FORMATS[name].load()(out, replace(plan, functions=functions))
    sink.thread(Thread(5, 7, EVIL))
    inside = (A(EVIL, Constant(EVIL)), A("", Symbol(EVIL)), A("x", Variant(EVIL, (A(EVIL, 1),))))
    args = (A(EVIL, Fields(EVIL, inside)), A("y", Unreadable(EVIL)), A("z", Variant(EVIL)))
    call = Call(EVIL, 5, 7, 0, 100, 200, 0, args, binary=EVIL)
    sink.entry(call)
    call.result, call.end, call.duration = Constant(EVIL), "returned", 10
    sink.exit(call)
    sink.end(Summary(calls=1))
    assert all(is_clean(line) for line in out.getvalue().split("\n"))
    if name == "jsonl":
        assert json.loads(out.getvalue().splitlines()[1])["name"] == EVIL


def test_every_character_is_decided():
    assert [hex(n) for n in range(sys.maxunicode + 1) if not is_clean(clean(chr(n)))] == []
