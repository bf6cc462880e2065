"""Functions compiled without optimisation that the linker optimises all the same: what they are
always passed the same for is dropped, and what comes after moves."""

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
#define KEPT __attribute__((noinline))
struct Some {
    long own = 1001;
    KEPT long all(long a, bool flag, short b, const char *text, double real, long tag)
    {
        sink = sink + a; sink = sink + (flag ? b : text[0]); sink = sink + tag + (long)real;
        return tag;
    }
    KEPT long used(long a, long tag) { sink = sink + own + a; return sink + tag; }
};
static Some some, other;
static KEPT long apart(int *where, long a, long tag) { sink = sink + *where + a; return tag; }
static int place = 7;
int main()
{
    for (long i = 0; i < COUNT; i++) {
        some.all(10 * i, i & 1, -i, "text", 1.5, 70 + i);
        sink = sink + (i & 1 ? some : other).used(20 * i, 80 + i);
        apart(&place, 30 * i, 90 + i);
    }
    return 0;
}
"""


@pytest.mark.parametrize("options", [("-flto", "-Wl,--lto-O2"), ()])
def test_arguments(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    source, made = tmp_path / "some.cc", tmp_path / "some"
    source.write_text(PROGRAM)
    compiler = [tool("clang++"), "-O0", "-g", "-fuse-ld=lld", f"-DCOUNT={COUNT}"]
    subprocess.run([*compiler, *options, source, "-o", made], check=True)
    calls = traced(made, "/^(Some::|apart)/")
    assert len(calls) == 3 * COUNT
    for number, call in enumerate(calls):
        at = number // 3
        shown = {each["name"]: each["value"] for each in call["args"]}
        passed = {
            "Some::all": {"a": 10 * at, "flag": bool(at & 1), "b": -at, "tag": 70 + at},
            "Some::used": {"a": 20 * at, "tag": 80 + at},
            "apart": {"a": 30 * at, "tag": 90 + at},
        }[call["name"].partition("(")[0]]
        known = {name: value for name, value in shown.items() if value is not None}
        assert {name: known.get(name, passed[name]) for name in passed} == passed, call
        assert passed.keys() <= known.keys(), call


DECLARED = """\
#define KEPT __attribute__((noinline))
struct Some { int a; };
int instead(struct Some p, long b), later(long b, struct Some p), constant(struct Some p, long b);
int swapped(struct Some p, struct Some q);
"""

OVERWRITING = """\
volatile long sink;
KEPT void see(void *what) { sink = sink + *(int *)what; }
KEPT int instead(struct Some p, long b) { p.a = b; see(&p); return 1; }
KEPT int later(long b, struct Some p) { p.a = b; see(&p); return 1; }
KEPT int constant(struct Some p, long b) { p.a = 5; see(&p); return (int)b; }
KEPT int swapped(struct Some p, struct Some q)
{
    struct Some t = p;
    p = q; q = t; see(&p); see(&q);
    return 1;
}
"""

CALLING = """\
int main()
{
    for (int i = 0; i < COUNT; i++) {
        instead((struct Some){10 + i}, 20 + i);
        later(20 + i, (struct Some){10 + i});
        constant((struct Some){10 + i}, 20 + i);
        swapped((struct Some){10 + i}, (struct Some){20 + i});
    }
    return 0;
}
"""


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_what_overwrites_a_parameter_is_not_taken_for_it(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    level: str,
) -> None:
    # What sees that a parameter is not read need not pass it: the callers do not see the functions.
    over, main, made = tmp_path / "over.c", tmp_path / "main.c", tmp_path / "over"
    over.write_text(DECLARED + OVERWRITING)
    main.write_text(DECLARED + CALLING)
    options = ["-g", level, "-fno-omit-frame-pointer", f"-DCOUNT={COUNT}"]
    for source in (over, main):
        compiled = [tool("clang"), *options, "-c", source, "-o", source.with_suffix(".o")]
        subprocess.run(compiled, check=True)
    subprocess.run(
        [tool("clang"), over.with_suffix(".o"), main.with_suffix(".o"), "-o", made], check=True
    )
    calls = traced(made, "/^(instead|later|constant|swapped)$/")
    assert len(calls) == 4 * COUNT
    for number, call in enumerate(calls):
        at = number // 4
        passed = {"p": {"a": 10 + at}, "b": 20 + at, "q": {"a": 20 + at}}
        for argument in call["args"]:
            name, value = argument["name"], argument["value"]
            if name == "p" and call["name"] != "swapped":  # it is not read
                assert (value, argument["unreadable"]) == (None, "optimised out"), call
            else:
                assert value == passed[name], call
