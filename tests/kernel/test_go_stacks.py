"""Arguments of Go functions whose stack grows as they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GROWING = """package main

var sink byte

//go:noinline
func unused(a int, b string, c int8) { var big [4000]byte; big[sink] = 1; sink = big[1] }

//go:noinline
func used(a int, b string, c int8) int {
	var big [4000]byte
	big[sink] = 1
	return a + len(b) + int(c)
}

func main() {
	for n := 0; n < 3; n++ {
		done := make(chan int)
		go func() { unused(1, "hello", 2); done <- 0 }()
		<-done
		go func() { done <- used(3, "world", 4) }()
		<-done
	}
}
"""


@pytest.mark.parametrize(
    "version", ["1.15", pytest.param("1.19", marks=pytest.mark.slow), "1.27.3"]
)
def test_arguments_where_the_stack_grows(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    go: ModuleType,
    tmp_path: Path,
    version: str,
) -> None:
    """The code saves those that it reads."""
    source = tmp_path / "growing.go"
    source.write_text(GROWING)
    calls = traced(go.build(version, source, tmp_path / "growing"), "main.*used")
    assert len(calls) == 6
    for call in calls:
        shown = [argument["value"] for argument in call["args"]]
        if call["name"] == "main.used":
            assert shown == [3, "world", 4]
        elif version != "1.15":  # where all are on the stack
            assert shown == [None] * 3, call
            assert all("stack grows" in argument["unreadable"] for argument in call["args"])
