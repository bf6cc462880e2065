"""Kinds of values are recognised by what a view says of types, wherever it comes from."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest

from lbtrace.calls.decoders import Readers
from lbtrace.calls.payload import Context
from lbtrace.model import Fetch, Value
from lbtrace.recognize import BOUNDS, Recognizer
from lbtrace.recognize.view import MemberView
from lbtrace.values import KINDS, find_kind
from lbtrace.values.base import Fetched
from lbtrace.values.go_time import Time
from lbtrace.values.integer import Integer
from lbtrace.values.notation import text
from lbtrace.values.opaque import Opaque
from lbtrace.values.record import Record
from lbtrace.values.string import String
from lbtrace.values.vector import Vector


def view(form, name="", size=0, **facts):
    """A type that nothing but this describes, as the kernel's BTF would for C."""
    plain = {
        **{"written": name, "language": "c", "encoding": "", "is_x87": False, "alignment": 1},
        **{"is_reference": False, "leads_to_code": False, "target": None, "counts": ()},
        **{"is_polymorphic": False, "is_sized": True, "is_open": False, "definition": None},
        **{"constants": (), "constant_scopes": (), "arguments": (), "variants": None},
    }
    members = facts.pop("members", ())
    made = SimpleNamespace(form=form, name=name, size=size, **{**plain, **facts})
    made.members = iter(members)
    return made


INT = view("base", "int", 4, encoding="signed")
CHAR = view("base", "char", 1, encoding="signed character")


def test_types_within_types_end_at_a_bound():
    nested = INT
    for _ in range(BOUNDS.nesting + 2):
        nested = view("record", "s", 4, members=[MemberView("s", nested, 0)])
    found = Recognizer().type_of(nested)
    for _ in range(BOUNDS.nesting):
        found = found.members[0].type
    assert found == Opaque("s", "nested too deeply")


def test_library_types_are_known_by_their_members():
    chars = view("pointer", "char *", 8, target=CHAR)
    size = view("base", "unsigned long", 8, encoding="unsigned")
    parts = [MemberView("_M_len", size, 0), MemberView("_M_str", chars, 8)]
    name = "basic_string_view<char, std::char_traits<char> >"
    described = view("record", name, 16, language="c++", members=parts)
    assert Recognizer().type_of(described) == String(name, 16, 8, 0)
    ints = view("pointer", "int *", 8, target=INT)
    parts = [MemberView("_M_start", ints, 0), MemberView("_M_finish", ints, 8)]
    described = view("record", "vector<int>", 24, language="c++", members=parts)
    assert Recognizer().type_of(described) == Vector(
        "vector<int>", 24, Integer("int", 4, True), 4, 0, end=8
    )
    wide = view("record", "basic_string_view<wchar_t>", 16, language="c++", members=parts)
    assert isinstance(Recognizer().type_of(wide), Record)


@pytest.mark.parametrize(
    ("wall", "ext", "shown"),
    [
        # Go's documentation of `Time`: with the highest bit, 33 bits count seconds from 1885 on.
        (0, 0, "0001-01-01T00:00:00Z"),
        (1 << 63, 1234, "1885-01-01T00:00:00Z"),
        (1 << 63 | 1 << 30 | 500, 1234, "1885-01-01T00:00:01.0000005Z"),
        (123456789, 62135596800, "1970-01-01T00:00:00.123456789Z"),  # ``unixToInternal``
        (0, -1, "<-1 s since the year 1>"),
        (5, 1 << 62, f"<{1 << 62}.000000005 s since the year 1>"),
    ],
)
def test_times_of_go(wall, ext, shown):
    type = Time("time.Time")
    parts = [Value(p.name, p.type, slot) for slot, p in enumerate(type.named_parts())]
    value = Value("t", type, 0, members=tuple(parts))
    fetches = (Fetch(), Fetch(), Fetch())
    read = Readers(fetches, Context()).reader(value)
    assert text(read(Fetched((wall, ext & (1 << 64) - 1, 0), {}, 0, 1))) == shown


def test_the_table_is_complete():
    for row in KINDS:
        if row.type:
            assert find_kind(row.name).__struct_config__.tag == row.name
        if row.form or row.is_fetched:
            module = import_module(f"lbtrace.recognize.{row.name}")
            assert hasattr(module, "recognize") == bool(row.form)
            assert hasattr(module, "KindFetcher") == row.is_fetched
    assert find_kind("novelty") is None
