"""Results of functions that are compiled without optimisation, and linked with it: one that no
caller uses is not returned, and a tail call uses it only as far as the callers of what makes it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

PROGRAM = """\
volatile long sink;
#define KEPT static __attribute__((noinline))
#define SMALL static __attribute__((noinline, minsize))
#define TAIL __attribute__((musttail)) return
__attribute__((noinline)) long doubled(long p) { sink = sink + 1; return 2 * p; }
KEPT long dropped(long p) { sink = sink + p; return 78; }
SMALL long above(long p) { sink = sink + 1; return dropped(p); }
KEPT long certain(long p) { sink = sink + p; return 77; }
KEPT long towards(long p) { sink = sink + 1; TAIL certain(p); }
KEPT long even(long p);
KEPT long odd(long p) { sink = sink + p; if (!p) return 76; TAIL even(p - 1); }
KEPT long even(long p) { sink = sink + p; if (!p) return 76; TAIL odd(p - 1); }
KEPT long passed(long p) { return doubled(p); }
KEPT long onwards(long p) { sink = sink + 1; TAIL passed(p); }
KEPT long further(long p) { sink = sink + 1; TAIL onwards(p); }
int main()
{
    for (long i = 0; i < COUNT; i++) {
        sink = sink + above(10 + i);
        sink = sink + towards(20 + i);
        sink = sink + even(3);
        sink = sink + further(30 + i);
    }
    return 0;
}
"""

CONSTANTS = {"dropped": 78, "above": 78, "certain": 77, "towards": 77, "odd": 76, "even": 76}
HANDED_ON = ("passed", "onwards", "further")


@pytest.mark.parametrize(
    "options", [(), ("-flto", "-Wl,--lto-O1"), ("-flto", "-Wl,--lto-O2"), ("-flto=thin",)]
)
def test_results_of_tail_calls_are_those_that_callers_use(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    source, made = tmp_path / "tail.c", tmp_path / "tail"
    source.write_text(PROGRAM)
    compiler = [tool("clang"), "-O0", "-g", "-fuse-ld=lld", f"-DCOUNT={COUNT}"]
    subprocess.run([*compiler, *options, source, "-o", made], check=True)
    calls = traced(made, f"/^({'|'.join((*CONSTANTS, *HANDED_ON))})$/")
    assert {call["name"] for call in calls} == {*CONSTANTS, *HANDED_ON}
    for call in calls:
        name, result = call["name"], call["result"]
        if name in CONSTANTS:
            assert result in (None, CONSTANTS[name]), call
        else:
            assert result == 2 * call["args"][0]["value"], call
