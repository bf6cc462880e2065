"""Names of Go functions as people type them."""

from __future__ import annotations

import pytest

from lbtrace.plan.go.names import has_end, last_word

METHOD = "net/http.(*conn).serve"
INSTANCE = "main.Map[go.shape.int,go.shape.struct { a/b.X []int }]"
OF_GENERIC = "gopkg.in/x%2ev2.(*Stack[go.shape.string]).Push"
CLOSURE = "main.Map[...].func1"


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        *((METHOD, each) for each in ("serve", "conn.serve", "(*conn).serve", "http.conn.serve")),
        *((METHOD, each) for each in ("http.(*conn).serve", "net/http.conn.serve", METHOD)),
        *((INSTANCE, each) for each in ("Map", "main.Map", "Map[...]", INSTANCE)),
        (INSTANCE, "Map[int,struct { a/b.X []int }]"),
        (INSTANCE, "Map[int, struct { a/b.X []int }]"),
        *((OF_GENERIC, each) for each in ("Push", "Stack.Push", "(*Stack).Push")),
        *((OF_GENERIC, each) for each in ("Stack[string].Push", "(*Stack[...]).Push")),
        *((CLOSURE, each) for each in ("Map.func1", "main.Map.func1", "func1")),
    ],
)
def test_what_a_name_means(name: str, pattern: str):
    assert has_end(name, pattern)
    assert last_word(pattern) in name


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        *((METHOD, each) for each in ("erve", "http.serve", "(*http).serve", "p.conn.serve", "")),
        ("main.V.Area", "(*V).Area"),
        *((INSTANCE, each) for each in ("X", "int", "Map[int]", "Map.func1", "Map[")),
        ("main.(*V).Area-fm", "Area"),
    ],
)
def test_what_it_does_not_mean(name: str, pattern: str):
    assert not has_end(name, pattern)
