"""Calls and their values as a Python program sees them: by name, by number, as text."""

from __future__ import annotations

import pickle

import pytest

import lbtrace
from lbtrace import Address, Argument, Arguments, Elements, Fields, Referent, Text, Variant


def call(*args: Argument, **facts: object) -> lbtrace.Call:
    shown = {"result": 3, "end": "returned"} | facts
    return lbtrace.Call("f", 1, 2, 0, 10, 20, 0, Arguments(args), **shown)  # type: ignore[arg-type]


def test_arguments_by_name_and_number() -> None:
    seen = call(Argument("n", 4), Argument("key", Text(b"abc", 3)))
    assert seen.args["n"] == seen["n"] == seen[0] == seen.args[0].value == 4
    assert seen.args[-1].name == "key"
    assert seen.args[:1] == (Argument("n", 4),)
    assert isinstance(seen.args[:1], Arguments)
    assert dict(seen.args) == {"n": 4, "key": Text(b"abc", 3)} == dict(seen.args.items())
    assert seen.args.keys() == ["n", "key"]
    assert "n" in seen.args
    assert "m" not in seen.args
    assert Argument("n", 4) in seen.args
    assert seen.args.get("m") is None
    assert seen.args.get("m", 7) == 7
    assert seen.args.get("n") == 4
    assert [argument.name for argument in seen.args] == ["n", "key"]
    with pytest.raises(KeyError, match="nothing is called 'm'; there is n, key"):
        seen["m"]
    with pytest.raises(IndexError):
        seen[2]
    assert pickle.loads(pickle.dumps(seen.args)) == seen.args
    assert hash(seen.args) == hash(tuple(seen.args))


def test_arguments_of_the_same_name() -> None:
    """C++ has parameters without a name, Go several called _."""
    seen = call(Argument("", 1), Argument("", 2), Argument("_", 3), Argument("_", 4))
    assert dict(seen.args) == {"": 1, "#2": 2, "_": 3, "_#2": 4}
    assert seen["#2"] == 2
    assert seen["_#2"] == 4


def test_members_and_elements() -> None:
    key = Fields("struct key", (Argument("id", 7), Argument("names", Elements((1, 2), 3))), 1)
    seen = call(Argument("key", Referent(Address(0x1000), key)), Argument("v", key))
    assert seen["key"]["id"] == 7
    assert seen["v"]["names"][1] == 2
    assert [*seen["v"]["names"]] == [1, 2]
    assert len(seen["v"]["names"]) == 2
    assert dict(key) == {"id": 7, "names": Elements((1, 2), 3)}
    assert [member.name for member in key] == ["id", "names"]
    assert Variant("Some", (Argument("", 3),))[0] == 3
    with pytest.raises(KeyError, match="nothing is called 'size'; there is id, names"):
        key["size"]
    with pytest.raises(TypeError, match="what lies at 0x10 has no members"):
        Referent(Address(16), 5)["x"]


def test_strings() -> None:
    assert str(Text(b"h\xc3\xb6r", 4)) == "hör"
    assert bytes(Text(b"h\xc3\xb6r", 4)) == b"h\xc3\xb6r"
    assert str(Text(b"a\xffb", 3)) == "a\\xffb"
    assert str(Text(b"h\xc3\xb6", 9)) == "hö…"
    assert str(Text(b"h\xc3", 9)) == "h…"  # of a character that was cut nothing is left


def test_calls_as_text() -> None:
    assert str(call(Argument("n", 4))) == "f(n=4) = 3"
    assert str(call(result=None)) == "f()"
    assert str(call(end="unwound")) == "f() ✗ unwound"
    assert str(call(end="open")) == "f() … no return seen"
    assert str(call(Argument("s", Text(b"\x1b[2J", 4)))) == 'f(s="\\x1b[2J") = 3'
    assert str(call(Argument("n - 1", 3)).args) == "(n - 1=3)"
    assert str(call(result=Fields("", (Argument("", 1), Argument("", 2))), goroutine=1)) == (
        "f() = (1, 2)"
    )


def test_values_as_text() -> None:
    key = Fields("struct key", (Argument("id", 7),), 2)
    assert str(key) == "{id=7, … 2 more}"
    assert str(Referent(Address(16), key)) == "&{id=7, … 2 more}"
    assert str(Elements((1, Text(b"x", 1)))) == '[1, "x"]'
    assert str(Variant("Some", (Argument("", 3),))) == "Some(3)"
    assert str(lbtrace.Unreadable("float in xmm0")) == "<float in xmm0>"
    assert str(Argument("n", 4)) == "n=4"
    assert f"{Address(255)} {Address(255)!r} {Address(255):d}" == "0xff Address(0xff) 255"
