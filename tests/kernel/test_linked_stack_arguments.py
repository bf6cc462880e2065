"""Arguments on the stack of functions compiled without optimisation that the linker optimises all
the same, and whose debug information may leave out what they do not read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

PUSHED = """\
volatile long sink;
struct Some { long a, b, c; };
#define SIX long a, long b, long c, long d, long e, long f
#define KEPT __attribute__((noinline SMALL))
KEPT void number(SIX, int g) { sink = sink + g; }
KEPT void several(SIX, int g, int unused, short i) { sink = sink + g + i; }
KEPT void wide(SIX, __int128 g) { sink = sink + (long)g; }
KEPT void text(SIX, const char *g) { sink = sink + *g; }
KEPT void after(SIX, float x, int g) { sink = sink + g; }
KEPT void record(SIX, long unused, struct Some s) { sink = sink + s.b; }
KEPT void unset(SIX, long p, long g) { long other; g = p; p = other; sink = sink + g; }
KEPT void assigned(SIX, long p, long g) { long t = p; p = 5; g = t; sink = sink + g; }
KEPT void named(SIX, int g, long unused, long h) { sink = sink + a + b + c + d + e + f + g + h; }
"""

PUSHING = """\
int main()
{
    for (int i = 0; i < COUNT; i++) {
        struct Some s = {20 + i, 30 + i, 40 + i};
        number(1, 2, 3, 4, 5, 6, 70 + i);
        several(1, 2, 3, 4, 5, 6, 70 + i, 8, 9);
        wide(1, 2, 3, 4, 5, 6, 70 + i);
        text(1, 2, 3, 4, 5, 6, "text");
        after(1, 2, 3, 4, 5, 6, 2.5f, 70 + i);
        record(1, 2, 3, 4, 5, 6, 7, s);
        unset(1, 2, 3, 4, 5, 6, 70 + i, 7);
        assigned(1, 2, 3, 4, 5, 6, 70 + i, 7);
        named(1, 2, 3, 4, 5, 6, 70 + i, 8, 9);
    }
    return 0;
}
"""


def list_passed(name: str, at: int) -> dict[str, Any]:
    """What a function of `PUSHED` is passed when it is called for the nth time."""
    passed = {each: 1 + n for n, each in enumerate("abcdef")}
    passed |= {"i": 9, "h": 9, "x": 2.5, "p": 70 + at}
    passed["s"] = {"a": 20 + at, "b": 30 + at, "c": 40 + at}
    passed["unused"] = 7 if name == "record" else 8
    passed["g"] = {"text": "text", "unset": 7, "assigned": 7}.get(name, 70 + at)
    return passed


@pytest.mark.parametrize("frame", ["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
@pytest.mark.parametrize(
    ("small", "linked"),
    [
        (", minsize", ("-flto",)),
        (", minsize", ("-flto=thin",)),
        ("", ("-flto", "-Xclang", "-disable-O0-optnone")),
    ],
)
def test_what_is_on_the_stack_is_not_read_from_a_register(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    small: str,
    linked: tuple[str, ...],
    frame: str,
) -> None:
    # Debug information leaves out the parameters in registers: these are not read.
    source, made = tmp_path / "pushed.c", tmp_path / "pushed"
    source.write_text(PUSHED + PUSHING)
    options = ["-O0", "-g", "-w", f"-DCOUNT={COUNT}", f"-DSMALL={small}", frame, *linked]
    linker = ["-fuse-ld=lld", "-Wl,--lto-O2", "-Wl,--export-dynamic"]
    subprocess.run([tool("clang"), *options, *linker, source, "-o", made], check=True)
    names = "number|several|wide|text|after|record|unset|assigned|named"
    shown = traced(made, f"/^({names})$/")
    assert len(shown) == 9 * COUNT
    for number, call in enumerate(shown):
        passed = list_passed(call["name"], number // 9)
        for argument in call["args"]:
            assert argument["value"] in (None, passed[argument["name"]]), call


@pytest.mark.parametrize("frame", ["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
def test_what_is_on_the_stack_is_shown_where_nothing_is_left_out(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]],
    tool: Callable[[str], str],
    tmp_path: Path,
    frame: str,
) -> None:
    source, main = tmp_path / "pushed.c", tmp_path / "main.c"
    library, made = tmp_path / "libpushed.so", tmp_path / "pushed"
    source.write_text(PUSHED)
    declared = "".join(
        line.partition(" { ")[0] + ";\n" if line.startswith("KEPT") else line + "\n"
        for line in PUSHED.splitlines()
        if "volatile" not in line
    )
    main.write_text(declared + PUSHING)
    options = ["-O0", "-g", "-w", "-DSMALL=, minsize", frame, f"-DCOUNT={COUNT}"]
    shared = ["-fPIC", "-shared", "-flto", "-fuse-ld=lld", "-Wl,--lto-O2"]
    subprocess.run([tool("clang"), *options, *shared, source, "-o", library], check=True)
    subprocess.run([tool("clang"), *options, main, library, "-o", made], check=True)
    output = tmp_path / "out.jsonl"
    words = ("--func", "/^(number|several|after|named|assigned|unset)$/", "--quiet", "-o", output)
    done = lbtrace("attach", "--binary", library, *words, "--", made)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in output.read_text().splitlines()]
    shown = [each for each in told if each["type"] == "call"]
    assert len(shown) == 6 * COUNT
    for number, call in enumerate(shown):
        passed = list_passed(call["name"], number // 6)
        if call["name"] in ("number", "named"):
            assert {each["name"]: each["value"] for each in call["args"]} == {
                each["name"]: passed[each["name"]] for each in call["args"]
            }, call
        for argument in call["args"]:
            assert argument["value"] in (None, passed[argument["name"]]), call
