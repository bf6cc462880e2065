"""Values of Go that take no room: they have their members, whatever passes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = """package main

type Empty struct{}
type Holds struct{ m struct{} }
type List [3]struct{}
type Nested struct {
	empty Empty
	none  [0]int
	holds Holds
	list  List
}
type Around struct {
	n int
	nested Nested
	k int8
}

//go:noinline
func alone(e Empty, h Holds, l List, n Nested, k int) (Holds, int) { return h, k }

//go:noinline
func inside(a Around) (Around, List) { return a, List{} }

func main() {
	alone(Empty{}, Holds{}, List{}, Nested{}, 3)
	inside(Around{n: 4, k: 5})
}
"""

HOLDS = {"m": {}}
LIST = [{}, {}, {}]
NESTED = {"empty": {}, "none": [], "holds": HOLDS, "list": LIST}
AROUND = {"n": 4, "nested": NESTED, "k": 5}


@pytest.mark.parametrize("version", ["1.15", "1.27.3"])
def test_members_without_a_size(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    go: ModuleType,
    tmp_path: Path,
    version: str,
) -> None:
    source = tmp_path / "units.go"
    source.write_text(PROGRAM)
    calls = traced(go.build(version, source, tmp_path / "units"), "/main[.](alone|inside)$/")
    alone, inside = (
        ({argument["name"]: argument["value"] for argument in call["args"]}, call["result"])
        for call in calls
    )
    assert alone == ({"e": {}, "h": HOLDS, "l": LIST, "n": NESTED, "k": 3}, [HOLDS, 3])
    assert inside == ({"a": AROUND}, [AROUND, LIST])
