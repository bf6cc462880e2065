"""Values of Go's stripped programs: bits, as code and the runtime's tables show them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Compile = Callable[..., Path]
Lbtrace = Callable[..., "subprocess.CompletedProcess[str]"]
Traced = Callable[[Path, str], list[dict[str, Any]]]

UNDECLARED = {
    "main.small": [([255, 255, 65236, 65535, "0xfffeee90", "0xee6b2800"], "0xee6b1661")],
    "main.truth": [([1, 0], 1)],
    "main.point": [([["0xfffffffd", 4], 65531], [4, "0xfffffff8"])],
    "main.empty": [([{}, 5, [[6]]], 11)],
    "main.named": [([3], [4, 1])],
    "main.Point.Sum": [([[4, 6], 5], 15)],
    "main.floats": [([None] * 4, None)],
    "main.main": [([], None)],
}
"""Arguments and results of calls in types.go."""


def test_without_debug_information(go_program: Compile, traced: Traced) -> None:
    calls = traced(go_program("types", "1.27.3", "stripped"), "main.*")
    shown: dict[str, list[tuple[list[Any], Any]]] = {}
    for call in calls:
        shown.setdefault(call["name"], []).append(
            ([a["value"] for a in call["args"]], call["result"])
        )
    assert {name: shown[name] for name in UNDECLARED} == UNDECLARED
    (big,) = (call for call in calls if call["name"] == "main.big")
    assert big["result"] == [4, None]
    assert "results on the stack" in json.dumps(big)
    ((given, result),) = shown["main.text"]
    assert (given[0][1], given[1], result) == (6, 7, None)
    assert [result[0] for _, result in shown["main.several"]] == [1, 2]
    assert [given[1][0] == 0 for given, _ in shown["main.face"]] == [True, False]


def test_words_of_the_stack(go_program: Compile, lbtrace: Lbtrace, tmp_path: Path) -> None:
    """Go 1.15 has no table of arguments: they are unknown, unless their number is given."""
    output, program = tmp_path / "out.jsonl", go_program("types", "1.15", "stripped")
    for words, expected in (((), [None]), (("--args", "11"), list(range(1, 12)))):
        asked = ("--func", "main.many", *words, "--quiet", "--force", "-o", output, "--", program)
        done = lbtrace("attach", *asked)
        assert done.returncode == 0, done.stderr
        records = map(json.loads, output.read_text().splitlines())
        (call,) = (record for record in records if record["type"] == "call")
        assert [argument["value"] for argument in call["args"]] == expected


def test_text_without_debug_information(
    go_program: Compile, lbtrace: Lbtrace, tmp_path: Path
) -> None:
    output, program = tmp_path / "out.jsonl", go_program("types", "1.27.3", "stripped")
    words = ("--strict", "--quiet", "--arg", "str(arg0)", "--arg", "arg1", "-o", output, "--")
    done = lbtrace("attach", "--func", "main.text", "--where", "arg1 == 7", *words, program)
    assert done.returncode == 0, done.stderr
    (call,) = (r for r in map(json.loads, output.read_text().splitlines()) if r["type"] == "call")
    assert [a["value"] for a in call["args"]] == ["héllo", 7]


def test_wrappers_of_generic_methods_without_debug_information(
    go_program: Compile, traced: Traced
) -> None:
    """They are passed no dictionary, other than what they call."""
    program = go_program("generic", "1.27.3", "stripped")
    calls = traced(program, "main.(*Stack*")
    assert [(c["name"], [_lengths(a["value"]) for a in c["args"]]) for c in calls] == [
        ("main.(*Stack[go.shape.string]).Push", ["word", 1]),
        ("main.(*Stack[go.shape.string]).Push", ["word", 1]),
        ("main.(*Stack[go.shape.string]).Push", ["word", 1]),
        ("main.(*Stack[string]).Push", ["word", 1]),
        ("main.(*Stack[string]).Push-fm", [None]),
    ]


def _lengths(value: Any) -> Any:
    """The length in a string's two words; of a single word, or none, that it is one."""
    return value[1] if isinstance(value, list) else value and "word"
