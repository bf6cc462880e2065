"""Parameters that are overwritten before they are read, variadic functions, and functions that were
optimised only when they were linked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

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


VARIADIC = """\
#include <stdarg.h>
volatile long sink;
#define KEPT static __attribute__((noinline))
KEPT void listed(
    unsigned a, char same, int c, long always, long e, long f, double real, long g, ...)
{
    va_list rest;
    va_start(rest, g);
    sink = sink + va_arg(rest, int);
    va_end(rest);
    sink = sink + a + same + c + always + e + f + (long)real + g;
}
int main()
{
    for (int i = 0; i < COUNT; i++)
        listed(10 + i, 'i', 20 + i, 8457555485046386648L, i, i, 1.5, 30 + i, 7, 2.5);
    return 0;
}
"""


@pytest.mark.parametrize("compiler", [("clang",), (sys.executable, "-m", "ziglang", "cc")])
def test_variadic_functions_show_all_where_nothing_is_optimised(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: tuple[str, ...],
) -> None:
    if len(compiler) > 1:
        pytest.importorskip("ziglang")  # its clang moves al first
    source, made = tmp_path / "variadic.c", tmp_path / "variadic"
    source.write_text(VARIADIC)
    options = ["-O0", "-g", "-fno-sanitize=all", f"-DCOUNT={COUNT}", source, "-o", made]
    subprocess.run([tool(compiler[0]), *compiler[1:], *options], check=True, cwd=tmp_path)
    calls = traced(made, "listed")
    assert len(calls) == COUNT
    for number, call in enumerate(calls):
        shown = {each["name"]: each["value"] for each in call["args"]}
        assert shown.pop("real") in (None, 1.5), call  # it is in a vector register
        assert shown == {
            **{"a": 10 + number, "same": "i", "c": 20 + number, "always": 8457555485046386648},
            **{"e": number, "f": number, "g": 30 + number},
        }, call


UNMARKED = """\
volatile long sink;
#define KEPT __attribute__((noinline, minsize))
__attribute__((noinline)) long more(long a) { sink = sink + a; return sink & 3; }
__attribute__((noinline)) void see(void *what) { __asm__ volatile("" :: "r"(what) : "memory"); }
KEPT void copied(long a, long b) { b = a; a = more(3); sink = sink + b; }
KEPT void dropped(long a, long b, long c) { b = a; a = 7; more(3); sink = sink + b + c; }
KEPT int pushed(long a, long b, long c, long d, long e, long f, int over, unsigned unused, int low)
{
    over = (int)more(19);
    see(&c); see(&d);
    sink = sink + a + b + c + d + e + f + (short)low;
    see(&over);
    return 1;
}
KEPT int onwards(double a, long double p, long b, long double q, long c, int last)
{
    return (int)more((long)q + c + last);
}
int main()
{
    for (int i = 0; i < COUNT; i++) {
        onwards(1.5, 2.5 + i, 3 + i, 4.5 + i, 5 + i, 6 + i);
        copied(10 + i, 20 + i);
        dropped(10 + i, 20 + i, 30 + i);
        pushed(i, 10 + i, 20 + i, 30 + i, 40 + i, 50 + i, 60 + i, 70 + i, 80 + i);
    }
    return 0;
}
"""


@pytest.mark.parametrize("level", ["-Wl,--lto-O1", "-Wl,--lto-O2", "-Wl,--lto-O3"])
@pytest.mark.parametrize("compiler", ["clang", "clang++"])
def test_what_is_not_marked_as_optimised_is_not_taken_for_plain_code(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: str,
    level: str,
) -> None:
    # clang exempts only functions from that which are not ``minsize``.
    made = tmp_path / "unmarked"
    source = tmp_path / ("unmarked.c" if compiler == "clang" else "unmarked.cc")
    source.write_text(UNMARKED)
    options = ["-O0", "-g", "-flto", "-fuse-ld=lld", level, f"-DCOUNT={COUNT}"]
    subprocess.run([tool(compiler), *options, source, "-o", made], check=True)
    calls = traced(made, "/^(onwards|copied|dropped|pushed)/")
    assert len(calls) == 4 * COUNT
    for number, call in enumerate(calls):
        name, at = call["name"].partition("(")[0], number // 4
        if name == "onwards":
            passed = {"a": 1.5, "p": 2.5 + at, "b": 3 + at, "q": 4.5 + at, "c": 5 + at}
            passed["last"] = 6 + at
        else:
            first = 0 if name == "pushed" else 10
            passed = {each: first + 10 * n + at for n, each in enumerate("abcdef")}
            passed |= {"over": 60 + at, "unused": 70 + at, "low": 80 + at}
        for argument in call["args"]:
            assert argument["value"] in (None, passed[argument["name"]]), call
        shown = {each["name"]: each["value"] for each in call["args"]}
        if name == "pushed":
            assert [shown[each] for each in "abcdef"] == [passed[each] for each in "abcdef"], call
