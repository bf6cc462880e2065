"""Calls of Go that panics left, compared with what the program says of those that it recovers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[..., Path]
Lbtrace = Callable[..., "subprocess.CompletedProcess[str]"]

OLD = ("1.15", "1.19", "1.21.13")
"""Versions in which it is not known which of several panics left a call."""

VERSIONS = [
    ("1.27.3", "plain"),
    ("1.27.3", "stripped"),
    ("1.15", "plain"),
    *(pytest.param(v, "plain", marks=pytest.mark.slow) for v in ("1.19", "1.21.13", "1.24.11")),
    *(pytest.param(v, "pie", marks=pytest.mark.slow) for v in ("1.25.5", "1.26.6", "1.27.3")),
]

FIELDS = {
    "main.Custom": {"Code": 7, "Name": "seven"},
    "*main.Custom": {"Code": 8, "Name": "eight"},
    "*main.Fault": {"Op": "read", "Err": {"type": "*errors.errorString", "message": "inner"}},
}
"""Values of which the program prints more or less."""


def told(what: Any) -> tuple[str, Any]:
    """The type of what a call was left by, and its text."""
    if isinstance(what, str):
        return "string", what
    return what["type"], what.get("message", what.get("value"))


@pytest.mark.parametrize(("version", "kind"), VERSIONS)
@pytest.mark.parametrize("more", [(), ("--errors",)], ids=["all", "errors"])
def test_calls_tell_which_panic_left_them(
    go_program: Compile,
    lbtrace: Lbtrace,
    tmp_path: Path,
    version: str,
    kind: str,
    more: tuple[str, ...],
) -> None:
    capture = tmp_path / "panics.lbt"
    functions = "main.fails,main.passes,main.inner,main.rewraps,main.between"
    words = ("attach", "--func", functions, *more, "--quiet", "-o", capture)
    program = go_program("panics", version, kind)
    done = lbtrace(*words, "--", program, "crash")
    assert done.returncode == 2
    assert "panic: " in done.stderr
    said = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(said) == 18 + 3
    records = map(json.loads, lbtrace("export", capture, "--format", "jsonl").stdout.splitlines())
    calls = [each for each in records if each["type"] == "call"]
    left = [each for each in calls if each["end"] != "returned"]
    assert {each["end"] for each in left} == {"unwound"}
    assert len(calls) - len(left) == (0 if more else 2)

    found = [told(c["exception"]["what"]) for c in left if c["name"] == "main.fails"]
    assert found == [told(c["exception"]["what"]) for c in left if c["name"] == "main.passes"]
    plain = [each for each in said if int(each[0]) < 100]
    for (held, value), (_, type, text) in zip(found[:-1], plain, strict=True):
        assert held == type
        if held in FIELDS:
            assert value == FIELDS[held]
        elif held == "*runtime.TypeAssertionError":
            assert (value["concrete"], value["asserted"]) == ("string", "int")
        else:
            assert str(value) == text.removeprefix("runtime error: ")
    assert found[-1] == ("*main.Fault", FIELDS["*main.Fault"])

    nested = [c for c in left if c["name"] in ("main.inner", "main.rewraps", "main.between")]
    assert len(nested) == 6
    if version in OLD:
        assert not any("exception" in call for call in nested)
        return
    again = [text for n, _, text in said if int(n) >= 100]
    for call in nested:
        number = 100 + (call["goroutine"] != 1)
        what = call["exception"]["what"]
        if call["name"] == "main.inner":
            assert told(what) == ("int", number)
        else:
            assert what == again[number - 100] == f"again {number}"
