"""What Go developers type: names, nil, goroutines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Lbtrace = Callable[..., Any]

SOURCE = """\
package main

import (
	"fmt"
	"sync"
)

type Shape interface{ Area(scale int) int }

type Square struct{ side int }

//go:noinline
func (s *Square) Area(scale int) int { return s.side * scale }

//go:noinline
func look(
	k int, p *Square, s Shape, m map[string]int, l []int, f func(), c chan int,
) (*Square, error) {
	if k > 1 {
		return p, fmt.Errorf("look %d", k)
	}
	return p, nil
}

//go:noinline
func named(k int) (n int, err error) {
	if k > 1 {
		err = fmt.Errorf("named %d", k)
	}
	return k, err
}

type Page struct {
	method, path, host string
	next               *Page
	tags               []string
}

//go:noinline
func deep(p, q *Page, tags []string, last *Square) (*Page, *Page, string, error) {
	return p, q, "shown", fmt.Errorf("deep %s", p.path)
}

//go:noinline
func visit(k int) int { return k }

func main() {
	q := &Square{2}
	var s Shape = q
	s.Area(3)
	look(1, nil, nil, nil, nil, nil, nil)
	look(2, q, q, map[string]int{}, []int{}, func() {}, make(chan int))
	named(1)
	named(2)
	page := &Page{"GET", "/x", "h", &Page{path: "/y"}, []string{"t", "u"}}
	deep(page, page.next, []string{"a", "b"}, q)
	var all sync.WaitGroup
	for k := 10; k < 14; k++ {
		all.Add(1)
		go func(k int) { visit(k); visit(k); all.Done() }(k)
	}
	all.Wait()
	visit(1)
}
"""

EVERYDAY = ["1.15", "1.27.3"]
OTHERS = ["1.19", "1.24.11"]
VERSIONS = [*EVERYDAY, *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Once, so that each version compiles it once."""
    written = tmp_path_factory.mktemp("typed") / "typed.go"
    written.write_text(SOURCE)
    return written


@pytest.fixture
def shown(
    go: ModuleType,
    go_made: Callable[[str], Path | None],
    lbtrace: Lbtrace,
    source: Path,
    tmp_path: Path,
) -> Callable[..., list[dict[str, Any]]]:
    """Traces the program that a version of Go compiles; returns the calls."""

    def shown(version: str, function: str, *words: str) -> list[dict[str, Any]]:
        program = go_made(f"typed-{version}")
        if program is None:
            program = go.build(version, source, source.parent / f"typed-{version}")
        output = tmp_path / "typed.jsonl"
        options = ("--func", function, *words, "--quiet", "--force", "-o", output, "--", program)
        done = lbtrace("attach", *options)
        assert done.returncode == 0, done.stderr
        records = map(json.loads, output.read_text().splitlines())
        return [record for record in records if record["type"] == "call"]

    return shown


@pytest.mark.parametrize("version", VERSIONS)
def test_nil(shown: Callable[..., list[dict[str, Any]]], version: str) -> None:
    def first(function: str, test: str) -> list[Any]:
        return [c["args"][0]["value"] for c in shown(version, function, "--where", test)]

    values = ("p", "s", "m", "l", "f", "c")
    assert first("look", " and ".join(f"{name} == nil" for name in values)) == [1]
    assert first("main.look", " and ".join(f"nil != {name}" for name in values)) == [2]
    assert first("look", "err != nil") == first("look", "retval.r1 != nil") == [2]
    assert first("named", "err == nil") == [1]
    assert first("named", "n == 2") == [2]
    assert [c["args"][0]["value"] for c in shown(version, "look", "--errors")] == [2]
    assert first("named", "err != nil") == [
        call["args"][0]["value"] for call in shown(version, "named", "--errors")
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_depth_only_adds(shown: Callable[..., list[dict[str, Any]]], version: str) -> None:
    """There is no room for all of it: what pointers lead to gets what the rest leaves."""
    for depth, *words in ("0", "1", "3", ("3", "--where", "err != nil")):
        (call,) = shown(version, "deep", "--depth", depth, *words)
        page, second, tags, last = (each["value"] for each in call["args"])
        assert tags == {"len": 2, "cap": 2, "": ["a", "b"]}
        *pages, text, error = call["result"]
        assert (text, error["message"]) == ("shown", "deep /x")
        for each in (page, second, last, *pages):
            assert isinstance(each, dict) or int(each, 16)
        assert depth == "0" or page["method"] == "GET"


@pytest.mark.parametrize("version", VERSIONS)
def test_elements(shown: Callable[..., list[dict[str, Any]]], version: str) -> None:
    words = ("--arg", "tags[1]", "--arg", "len(tags)", "--arg", "p.tags[0]", "--arg", "tags[2]")
    (call,) = shown(version, "deep", *words, "--where", "len(p.path) == 2")
    assert [each["value"] for each in call["args"]] == ["b", 2, "t", None]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_goroutine(shown: Callable[..., list[dict[str, Any]]], version: str) -> None:
    every = shown(version, "visit")
    assert [c["args"][0]["value"] for c in every if c["goroutine"] == 1] == [1]
    first = shown(version, "visit", "--where", "goroutine == 1")
    assert [c["args"][0]["value"] for c in first] == [1]
    others = shown(version, "visit", "--where", "goroutine != 1 and k != 10")
    assert sorted(c["args"][0]["value"] for c in others) == [11, 11, 12, 12, 13, 13]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_without_its_receiver(
    shown: Callable[..., list[dict[str, Any]]], version: str
) -> None:
    for name in ("Area", "Square.Area", "(*Square).Area", "main.Square.Area"):
        (call,) = shown(version, name)
        assert (call["name"], call["result"]) == ("main.(*Square).Area", 6)
