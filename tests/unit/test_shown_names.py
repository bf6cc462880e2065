"""Which names stand before values in a tree."""

from __future__ import annotations

import pytest

from lbtrace.values.notation import shown_name


@pytest.mark.parametrize(
    "name",
    [
        "n",
        "text.ptr",
        "text.len",
        "~r0",
        "t.c.d",
        "self.0",
        'reg("ax")',
        "größe",
        "a$b",
        "n->len",
        "n.len",
        "p[2]",
        "t->v[1].key",
        "a|b",
        "a + b",
        "-a",
        "*p",
        "len(items)",
        "(int)flags",
        "1 << n",
        "str(key, 8)",
        "buf(p, 4)",
    ],
)
def test_names_that_are_shown(name: str) -> None:
    assert shown_name(name) == f"{name}="


@pytest.mark.parametrize("name", ["", "0", "Base<int>", "a\n"])
def test_names_that_are_not_shown(name: str) -> None:
    assert shown_name(name) == ""
