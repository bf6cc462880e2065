"""Functions compiled without optimisation that the linker optimises all the same: what they are
always passed the same for is dropped, and what comes after moves."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.parametrize("further", [(), ("-mavx",)])
def test_variadic_functions_show_what_callers_do_not_pass(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    further: tuple[str, ...],
) -> None:
    source, made = tmp_path / "variadic.c", tmp_path / "variadic"
    source.write_text(VARIADIC)
    options = ["-O0", "-g", "-flto", "-fuse-ld=lld", "-Wl,--lto-O2", f"-DCOUNT={COUNT}"]
    subprocess.run([tool("clang"), *options, *further, source, "-o", made], check=True)
    calls = traced(made, "listed")
    assert len(calls) == COUNT
    for number, call in enumerate(calls):
        shown = {each["name"]: each["value"] for each in call["args"]}
        why = {each["name"]: each.get("unreadable") for each in call["args"]}
        assert why["same"] == why["always"] == "optimised out", call
        # A constant may be passed all the same.
        passed = {"a": 10 + number, "c": 20 + number, "e": number, "f": number, "g": 30 + number}
        assert {name: shown[name] for name in passed} == passed, call


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


REFERRED = """\
#include <stdbool.h>
volatile long sink;
#define KEPT __attribute__((noinline, minsize))
__attribute__((noinline)) void see(void *what) { __asm__ volatile("" :: "r"(what) : "memory"); }
KEPT void flag(bool a, ...) { sink = sink + a; see(&a); }
KEPT void number(int a, ...) { sink = sink + a; see(&a); }
int main()
{
    for (int i = 0; i < COUNT; i++) {
        flag(true, 2, 3);
        number(1 + i, 2L, 3.5);
    }
    return 0;
}
"""


@pytest.mark.parametrize("level", ["-Wl,--lto-O0", "-Wl,--lto-O1"])
def test_what_is_stored_through_an_address_is_known(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    level: str,
) -> None:
    source, made = tmp_path / "referred.c", tmp_path / "referred"
    source.write_text(REFERRED)
    options = ["-O0", "-g", "-flto", "-fuse-ld=lld", level, f"-DCOUNT={COUNT}"]
    subprocess.run([tool("clang"), *options, source, "-o", made], check=True)
    shown = [(c["name"], c["args"][0]["value"]) for c in traced(made, "/^(flag|number)$/")]
    assert shown == [each for n in range(COUNT) for each in (("flag", True), ("number", 1 + n))]
