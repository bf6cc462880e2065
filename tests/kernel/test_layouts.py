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

REFERENCES = r"""
struct own { long a, b; ~own() {} };
struct large { long a[4]; };
#define KEPT __attribute__((noinline))
#define BODY { asm volatile("" : : "m"(x), "m"(y), "m"(z)); return {y.a}; }
KEPT large show_exported(own x, int i, long j, long k, long l, own y, own z) BODY
static KEPT large show_local(own x, int i, long j, long k, long l, own y, own z) BODY
static KEPT own show_two(own x, own y, int i) { return i ? x : y; }
int main()
{
    own x{1, 2}, y{3, 4}, z{5, 6};
    show_exported(x, 7, 8, 9, 10, y, z);
    show_local(x, 7, 8, 9, 10, y, z);
    show_two(x, y, 7);
}
"""


@pytest.mark.parametrize("version", [4, 5])
def test_objects_of_plain_code_of_clang(compiled: Compile, traced: Traced, version: int) -> None:
    """It says in which register the pointer to an object lies after it was moved there."""
    words = ["clang++", "-g", f"-gdwarf-{version}", "-O0"]
    x, y, z = ({"a": n, "b": n + 1} for n in (1, 3, 5))
    whole = {"x": x, "i": 7, "j": 8, "k": 9, "l": 10, "y": y, "z": z}
    first, second, third = traced(compiled(f"own{version}", words, REFERENCES), "show_*")
    for call in (first, second):
        assert {a["name"]: a["value"] for a in call["args"]} == whole
        assert call["result"] == {"a": [3, 0, 0, 0]}
    assert {a["name"]: a["value"] for a in third["args"]} == {"x": x, "y": y, "i": 7}
    assert third["result"] == x


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
