"""Objects that are passed by address, and what lies beyond the bytes that are fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Calls = list[dict[str, Any]]
Compile = Callable[[str, list[str], str], Path]
Traced = Callable[[Path, str], Calls]


LARGE = r"""
struct large { char pad[112]; char a[4]; __int128 wide; char b[3]; char c; };
struct cut { char pad[118]; char a[4]; char b[3]; };
__attribute__((noinline)) int show(struct large x, struct cut y) { return x.c + y.b[0]; }
int main(void)
{
    struct large x = {"p", "abc", 77, "de", 'f'};
    struct cut y = {"q", "xyz", "uv"};
    return show(x, y) == 0;
}
"""


def test_what_lies_beyond_the_fetched_bytes_says_so(compiled: Compile, traced: Traced) -> None:
    ((large, cut),) = (
        call["args"] for call in traced(compiled("large", ["gcc", "-g"], LARGE), "show")
    )
    unread = {"unreadable": "not read"}
    assert large["value"] == {"pad": "p", "a": "abc", "wide": None, "b": None, "c": None}
    assert large["parts"] == {"/wide": unread, "/b": unread, "/c": unread}
    assert cut["value"] == {"pad": "q", "a": "xy", "b": None}
    assert cut["parts"]["/b"] == unread
