"""Calls as tables: pyarrow's and pandas' own readers say what is in them."""

from __future__ import annotations

import sys
from typing import Any

import pandas
import pyarrow
import pytest

import lbtrace
from lbtrace import Address, Argument, Arguments, Elements, Fields, Referent, Text, Unreadable
from lbtrace.calls import table

pytestmark = pytest.mark.host


def call(*values: object, number: int = 0, **facts: Any) -> lbtrace.Call:
    args = Arguments([Argument(f"a{n}", value) for n, value in enumerate(values)])
    known = {"result": number, "end": "returned", "duration": 1500, "binary": "/bin/f"} | facts
    return lbtrace.Call("f", 1, 2, 0, 10 + number, 20, 0, args, **known)


def column(*values: object) -> Any:
    """What becomes of an argument with these values."""
    return lbtrace.to_arrow([call(value) for value in values]).column("args.a0")


def test_columns() -> None:
    made = lbtrace.to_arrow([call(5), call(6, number=1, duration=None, result=None, end="open")])
    assert made.column_names == [
        *("name", "binary", "pid", "tid", "thread_name", "goroutine", "depth", "start"),
        *("duration", "end"),
        *("lost", "result", "args.a0"),
    ]
    assert made.schema.field("start").type == pyarrow.duration("ns")
    first, second = made.to_pylist()
    assert first["duration"] == pandas.Timedelta(1500)
    assert (first["name"], first["binary"], first["end"]) == ("f", "/bin/f", "returned")
    assert (second["duration"], second["result"], second["args.a0"]) == (None, None, 6)


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        ([1, -2, Unreadable("?")], pyarrow.int64(), [1, -2, None]),
        ([1, 2**64 - 1], pyarrow.uint64(), [1, 2**64 - 1]),
        ([1, -(2**100)], pyarrow.string(), ["1", str(-(2**100))]),
        ([Address(1), Address(2**63)], pyarrow.uint64(), [1, 2**63]),
        ([True, False], pyarrow.bool_(), [True, False]),
        ([1.5, 2.0], pyarrow.float64(), [1.5, 2.0]),
        ([1, 2.5], pyarrow.string(), ["1", "2.5"]),
        ([Text(b"\xffa", 9), lbtrace.Constant("RED")], pyarrow.string(), ["\\xffa…", "RED"]),
        ([lbtrace.Constant("RED"), 7], pyarrow.string(), ["RED", "7"]),
        ([lbtrace.Char("\udcff")], pyarrow.string(), ["\\xff"]),
        ([Unreadable("float in xmm0")], pyarrow.null(), [None]),
        ([Elements((1, 2)), Elements(())], pyarrow.list_(pyarrow.int64()), [[1, 2], []]),
        ([Elements((1, 2), 5)], pyarrow.string(), ["[1, 2, … 5 more]"]),
        ([lbtrace.Variant("None"), lbtrace.Variant("Some", (Argument("", 3),))], None, None),
    ],
)
def test_types(values: list[object], kind: Any, read: list[object] | None) -> None:
    made = column(*values)
    assert made.type == (kind or pyarrow.string())
    assert made.to_pylist() == (read or ["None", "Some(3)"])


def test_records() -> None:
    node = Fields("struct node", (Argument("key", 3), Argument("name", Text(b"x", 1))))
    made = column(node, Referent(Address(64), node), Address(0))
    assert made.to_pylist() == [{"key": 3, "name": "x"}] * 2 + [None]
    unlike = column(node, 5)
    assert unlike.to_pylist() == ['{key=3, name="x"}', "5"]
    assert column(Fields("", (Argument("", 1), Argument("", 2)))).to_pylist() == [{"": 1, "#2": 2}]


def test_calls_with_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CHUNK", 2)
    made = lbtrace.to_arrow([call(1), call(), call(3, 4), call(5), call()])
    assert made.column("args.a0").to_pylist() == [1, None, 3, 5, None]
    assert made.column("args.a1").to_pylist() == [None, None, 4, None, None]
    monkeypatch.setattr(table, "COLUMNS", 1)
    with pytest.raises(lbtrace.UsageError, match="more than 1 names"):
        lbtrace.to_arrow([call(1, 2)])


def test_nothing() -> None:
    assert lbtrace.to_arrow([]).num_rows == 0
    assert len(lbtrace.to_pandas([])) == 0


def test_pandas() -> None:
    frame = lbtrace.to_pandas([call(5), call(2**63 + 1, number=1, duration=None), call()])
    assert frame["args.a0"].dtype == pandas.UInt64Dtype()
    assert frame["args.a0"][1] == 2**63 + 1
    assert frame["args.a0"].isna().tolist() == [False, False, True]
    assert frame["duration"].dtype == "timedelta64[ns]"
    assert frame["duration"].isna().tolist() == [False, True, False]
    assert frame.groupby("name", observed=True)["duration"].sum()["f"] == pandas.Timedelta(3000)
    node = Fields("struct node", (Argument("id", 2**53 + 1),))
    assert lbtrace.to_pandas([call(node), call()])["args.a0"][0] == {"id": 2**53 + 1}
    numbers = lbtrace.to_pandas([call(5), call(6, duration=None)], unit="us")
    assert numbers["start"].tolist() == [0, 0]
    assert numbers["duration"].dtype == "float64"
    assert len(lbtrace.to_pandas([], unit="us")) == 0
    with pytest.raises(lbtrace.UsageError):
        lbtrace.to_pandas([], unit="hours")


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(lbtrace.DependencyError, match="pandas is not installed") as raised:
        lbtrace.to_pandas([])
    assert raised.value.hint == "pip install 'lbtrace[pandas]'"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError):
        lbtrace.to_arrow([])


class Calling:
    """What has calls, as a trace and a capture do."""

    def calls(self) -> list[lbtrace.Call]:
        return [call(1)]


@pytest.mark.parametrize("make", [lbtrace.to_arrow, lbtrace.to_pandas])
@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        (call(1), "calls is one call, f(a0=1) = 0", "([call])"),
        (Calling(), "not an iterable of calls", "(calling.calls())"),
        (None, "calls is None, not an iterable of calls", ".calls()"),
        ("x", "calls is 'x', not an iterable of calls", ".calls()"),
        ([call(1), 5], "calls[1] is 5, not a Call", ".calls()"),
    ],
)
def test_what_is_no_calls_is_refused(make: Any, wrong: object, message: str, hint: str) -> None:
    with pytest.raises(lbtrace.UsageError) as raised:
        make(wrong)
    assert message in raised.value.message
    assert hint in raised.value.hint
