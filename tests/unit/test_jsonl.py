from __future__ import annotations

import json

import msgspec

from lbtrace.model import (
    Address,
    Argument,
    Boolean,
    Character,
    Elements,
    Fields,
    Function,
    GoLayout,
    Integer,
    Losses,
    Opaque,
    Plan,
    Pointer,
    Referent,
    Text,
    Thread,
    Unreadable,
    Value,
    Variant,
    Void,
)
from lbtrace.sinks.jsonl import json_value

INT = Integer("int", 4, True)


def lines(output):
    return [json.loads(line) for line in output.splitlines()]


def test_a_call_and_the_end(script, fib_plan, render):
    script.fib(2)
    records = lines(render("jsonl", fib_plan, script.batch(), losses=Losses(nested_miss=2)))
    assert records[2] == {
        "type": "call", "name": "fib", "args": [{"name": "n", "value": 2}], "result": 1,
        "start": 1100, "duration": 500, "pid": 5, "tid": 7, "depth": 0, "end": "returned",
    }  # fmt: skip
    assert [(r["args"][0]["value"], r["depth"]) for r in records[:3]] == [(1, 1), (0, 1), (2, 0)]
    assert len(records) == 4
    assert records[3]["type"] == "summary"
    assert records[3]["calls"] == 3
    assert records[3]["lost"] == {
        "ring_full_entry": 0, "ring_full_return": 0, "nested_miss": 2, "return_depth": 0,
        "string_fault": 0, "blob_too_long": 0, "ring_full_point": 0,
        "uncounted": 0, "unwritten": 0, "uncompared_tail": 0, "uncompared_open": 0,
        "uncomputed": 0, "stacks": 0, "in_interrupt": 0, "unhooked": 0, "switch_missed": 0,
        "unsplit": 0,
    }  # fmt: skip


def test_values_of_every_kind(script, make_plan, render):
    types = (INT, Boolean("bool", 1), Character("char", 1, True), Pointer("void *"), Opaque("s"))
    plan = make_plan(('f"\\é', types, Void()))
    script.call(0, -7, 1, ord("\n"), 0x7FFC12345678, 3)
    script.ret(0, 99)
    record = lines(render("jsonl", plan, script.batch()))[0]
    assert record["name"] == 'f"\\é'
    assert [arg["value"] for arg in record["args"]] == [-7, True, "\n", "0x7ffc12345678", None]
    assert "unreadable" in record["args"][4]
    assert record["result"] is None
    assert "unreadable" not in record


def test_an_unreadable_value_says_why(script, fib_plan, render):
    function = Function(
        "f", 1, 1, 1, parameters=(Value("x", Opaque("double"), -1, "float in xmm0"),)
    )
    plan = Plan(fib_plan.binaries, (function,), fib_plan.probes)
    script.call(0)
    record = lines(render("jsonl", plan, script.batch()))[0]
    assert record["args"] == [{"name": "x", "value": None, "unreadable": "float in xmm0"}]


def test_a_value_of_an_unknown_type_says_so_in_words():
    value = json_value(Fields("T", (Argument("a", Unreadable()), Argument("b", float("nan")))))
    assert json.loads(f'{{"value":{value}}}') == {
        "value": {"a": None, "b": "nan"},
        "parts": {"/a": {"unreadable": "type or location unknown"}},
    }


def test_ends_losses_and_goroutines(script, fib_plan, render):
    go = msgspec.structs.replace(fib_plan.binaries[0], go=GoLayout("register", 152, 8))
    go_plan = msgspec.structs.replace(fib_plan, binaries=(go,))
    script.enter(0, 0x3000, 1, goroutine=4)
    script.enter(0, 0x2000, 2, goroutine=4, lost=5)
    script.leave(0, 0x3000, 3, goroutine=4)
    batch = script.batch()
    loss, inner, outer, summary = lines(render("jsonl", go_plan, batch))
    assert loss == {"type": "loss", "pid": 5, "tid": 7, "depth": 1, "time": 1200, "count": 5,
                    "entries": 0, "goroutine": 4}  # fmt: skip
    assert (inner["end"], inner["duration"], inner["result"]) == ("unwound", None, None)
    assert (outer["end"], outer["duration"], outer["result"]) == ("returned", 200, 3)
    assert inner["goroutine"] == 4
    assert summary["calls"] == 2
    assert lines(render("jsonl", fib_plan, batch))[1]["stack"] == 4


def test_threads_and_binaries(script, fib_plan, render):
    other = msgspec.structs.replace(fib_plan.binaries[0], path="/lib/other.so")
    second = msgspec.structs.replace(fib_plan.functions[0], binary=1)
    binaries, functions = (other, *fib_plan.binaries), (*fib_plan.functions, second)
    plan = msgspec.structs.replace(fib_plan, binaries=binaries, functions=functions)
    script.call(0, 1)
    script.ret(0, 1)
    thread = Thread(5, 7, "fib", 1100, inside=2)
    reported, call, _ = lines(render("jsonl", plan, script.batch((thread,))))
    assert reported == {
        "type": "thread", "pid": 5, "tid": 7, "name": "fib", "time": 1100, "inside": 2
    }  # fmt: skip
    assert call["binary"] == "/lib/other.so"


def test_no_calls(script, fib_plan, render):
    assert len(lines(render("jsonl", fib_plan))) == 1


def test_structured_values_become_json():
    fields = Fields(
        "T",
        (
            Argument("s", Text(b'h\xc3\xa9 "x"\xff', 8)),
            Argument("p", Referent(Address(16), Fields("", (Argument("", 1), Argument("", True))))),
            Argument("v", Elements((1.5, float("inf"), Unreadable("float in xmm0")), 2)),
            Argument("a", Address(255)),
        ),
    )
    assert json.loads(f'{{"value":{json_value(fields)}}}') == {
        "value": {"s": 'hé "x"\udcff', "p": [1, True], "v": [1.5, "inf", None], "a": "0xff"},
        "parts": {
            "/v": {"length": 5},
            "/v/2": {"unreadable": "float in xmm0"},
        },
    }


def test_parts_are_named_by_where_they_are_in_the_json():
    """Variants are objects with one member, which a single value in them is itself."""
    cut = Text(b"ab", 200)
    pair = Variant("Two", (Argument("", 1), Argument("", cut)))
    fields = Fields(
        "T",
        (
            Argument("a/b~", Referent(Address(16), cut)),
            Argument("some", Variant("Some", (Argument("", Fields("", (Argument("x", cut),))),))),
            Argument("two", pair),
        ),
    )
    reported = json.loads(f'{{"value":{json_value(fields)}}}')
    assert reported["value"]["some"]["Some"]["x"] == reported["value"]["two"]["Two"][1] == "ab"
    places = ("/a~1b~0", "/some/Some/x", "/two/Two/1")
    assert reported["parts"] == {place: {"length": 200} for place in places}
    assert json_value(Referent(Address(16), cut)) == '"ab","length":200'
