"""Data at the beginning of functions (clang -fsanitize=function) is not taken for code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

PUSHED = """\
#define KEPT __attribute__((noinline))
volatile long sink;
KEPT long more(long a) { sink = sink + a; return sink & 3; }
KEPT void see(void *what) { __asm__ volatile("" :: "r"(what) : "memory"); }
KEPT void pushed(long a, long b, long c, long d, long e, long f, long g, long h)
{
    see(&h); sink = sink + a + g;
    for (int i = 0; i < more(3); i++) sink = sink + b + c;
    sink = sink + h;
}
int main()
{
    for (long i = 0; i < COUNT; i++) pushed(1, 2, 3, 4, 5, 6, 70 + i, 80 + i);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_data_at_the_beginning_is_not_taken_for_code(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    level: str,
) -> None:
    source, made = tmp_path / "pushed.cc", tmp_path / "pushed"
    source.write_text(PUSHED)
    options = ["-g", level, "-fsanitize=function", f"-DCOUNT={COUNT}"]
    subprocess.run([tool("clang++"), *options, source, "-o", made], check=True)
    calls = traced(made, "/^pushed/")
    assert len(calls) == COUNT
    for at, call in enumerate(calls):
        shown = {each["name"]: each["value"] for each in call["args"]}
        assert {name: shown[name] for name in "abcgh"} == {
            **{"a": 1, "b": 2, "c": 3},
            **{"g": 70 + at, "h": 80 + at},
        }, call
