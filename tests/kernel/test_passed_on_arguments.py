"""Parameters that a function does nothing with but pass them on, by a tail call or a call: each is
shown as its caller wrote it, and none that the other function only saves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

PROGRAM = """\
#include <stdarg.h>
#include <stdbool.h>
#define KEPT __attribute__((noinline))
struct Some { long a, b, c; };
volatile long sink, zero;
KEPT long sum(bool p, int q, long double r, long a, long b, long c, long d, long s)
{
    sink += p + q + (long)r + a + b + c + d + s;
    return q;
}
KEPT long tail(bool p, int q, long double r, long a, long b, long c, long d, long s)
{
    sink++;
    return sum(p, q, r, a, b, c, d, s);
}
KEPT long twice(bool p, int q, long double r, long a, long b, long c, long d, long s)
{
    return tail(p, q, r, a + 1, b, c, d, s);
}
KEPT long text(long a, long b, long c, long d, long e, long f, const char *s, int n, bool t,
               struct Some q)
{
    sink += a + b + c + d + e + f + n + t + q.b;
    return *s;
}
KEPT long pushed(long a, long b, long c, long d, long e, long f, const char *s, int n, bool t,
                 struct Some q)
{
    sink++;
    return text(a, b, c, d, e, f, s, n, t, q);
}
KEPT bool small(bool p, char q, short r, bool s) { sink += p + q + r + s; return p; }
KEPT bool handed(bool p, char q, short r, bool s) { sink++; return small(p, q, r, s); }
KEPT static void some(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (*format == '%') sink += va_arg(list, long);
    va_end(list);
}
/* What these do not pass on is in no register that a variadic function saves. */
KEPT static void logged(const char *format, bool p, long q) { p = zero; some(format); sink += p; }
KEPT static void halved(const char *format, long q, bool p) { some(format, q); p = 1; sink += p; }
int main(void)
{
    for (long i = zero; i < COUNT; i++) {
        struct Some q = {1 + i, 2 + i, 3 + i};
        tail(i & 1, 1 + i, 2 + i, 3 + i, 4 + i, 5 + i, 6 + i, 7 + i);
        twice(i & 1, 1 + i, 2 + i, 3 + i, 4 + i, 5 + i, 6 + i, 7 + i);
        pushed(1 + i, 2 + i, 3 + i, 4 + i, 5 + i, 6 + i, zero ? "no" : "octi", 7 + i, i & 1, q);
        handed(i & 1, 1 + i, 2 + i, ~i & 1);
        logged("octi", i & 1, 5 + i);
        halved("%", 5 + i, i & 1);
    }
    return 0;
}
"""


def passed(name: str, at: int) -> dict[str, Any]:
    odd = bool(at & 1)
    if name in ("tail", "twice"):
        numbers = {"a": 3 + at, "b": 4 + at, "c": 5 + at, "d": 6 + at, "s": 7 + at}
        return numbers | {"p": odd, "q": 1 + at, "r": 2.0 + at}
    if name == "pushed":
        some = {"a": 1 + at, "b": 2 + at, "c": 3 + at}
        numbers = {name: n + at for n, name in enumerate("abcdef", 1)}
        return numbers | {"s": "octi", "n": 7 + at, "t": odd, "q": some}
    if name == "handed":
        return {"p": odd, "q": chr(1 + at), "r": 2 + at, "s": not odd}
    return {"format": "octi" if name == "logged" else "%", "p": odd, "q": 5 + at}


CLANG, ZIG = ("clang",), (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all")


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        (CLANG, ("-O1",)),
        (CLANG, ("-O2",)),
        (CLANG, ("-Os", "-fno-omit-frame-pointer")),
        (CLANG, ("-O2", "-flto", "-fuse-ld=lld")),
        (CLANG, ("-O2", "-static")),
        (CLANG, ("-O2", "-static", "-pg")),
        (ZIG, ("-O2",)),
        (ZIG, ("-Os", "-gdwarf-5")),
    ],
)
def test_no_value_is_wrong(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    compiler: Sequence[str],
    options: tuple[str, ...],
) -> None:
    if compiler is ZIG:
        pytest.importorskip("ziglang")  # it brings a newer clang with it
    source, made = tmp_path / "some.c", tmp_path / "some"
    source.write_text(PROGRAM)
    words = [tool(compiler[0]), *compiler[1:], "-g", *options, f"-DCOUNT={COUNT}", source]
    subprocess.run([*words, "-o", made], check=True, cwd=tmp_path)
    monkeypatch.setenv("GMON_OUT_PREFIX", str(tmp_path / "gmon"))  # where -pg leaves its profile
    turns: dict[str, int] = {}
    lost: set[tuple[str, str]] = set()
    for call in traced(made, "/^(tail|twice|pushed|handed|logged|halved)$/"):
        name = call["name"]
        number = turns[name] = turns.get(name, -1) + 1
        at = number // 2 if name == "tail" else number
        expected = passed(name, at)
        if name == "tail" and number % 2:
            expected["a"] += 1  # it is called by twice
        for argument in call["args"]:
            if argument["value"] is None:
                lost.add((name, argument["name"]))
            else:
                assert argument["value"] == expected[argument["name"]], call
    assert turns.pop("tail") == 2 * COUNT - 1
    assert set(turns.values()) == {COUNT - 1}
    # mcount is called before anything is read; where the linker optimises, LLVM knows all callers.
    if not {"-pg", "-flto"} & {*options}:
        wanted = {"tail", "twice", "handed"} | ({"pushed"} if compiler is CLANG else set())
        # At -O1 debug information has no place of a truth value that is loaded as a byte.
        assert {each for each in lost if each[0] in wanted} <= {("pushed", "t")}, lost


HANDING = """\
#define KEPT static __attribute__((noinline))
volatile long sink;
struct Some { long a, b, c; };
KEPT long sum(struct Some q, long x) { sink += q.a + q.b + q.c + x; return x; }
KEPT long hands(struct Some q, long x) { sink++; return sum(q, x); }
int main(int count, char **names)
{
    for (long i = 0; i < COUNT; i++) {
        struct Some q = {count + i, 1 + count + i, 2 + count + i};
        hands(q, 3 + count + i);
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("compiler", "level"), [(CLANG, "-O1"), (CLANG, "-O2"), (CLANG, "-Os"), (ZIG, "-O2")]
)
def test_what_is_pushed_is_read_by_what_is_jumped_to(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: Sequence[str],
    level: str,
) -> None:
    if compiler is ZIG:
        pytest.importorskip("ziglang")
    source, made = tmp_path / "hands.c", tmp_path / "hands"
    source.write_text(HANDING)
    options = ["-g", level, "-fno-omit-frame-pointer", f"-DCOUNT={COUNT}"]
    words = [tool(compiler[0]), *compiler[1:], *options, source, "-o", made]
    subprocess.run(words, check=True, cwd=tmp_path)
    calls = traced(made, "hands")
    assert len(calls) == COUNT
    for at, call in enumerate(calls):
        shown = {each["name"]: each["value"] for each in call["args"]}
        assert shown == {"q": {"a": 1 + at, "b": 2 + at, "c": 3 + at}, "x": 4 + at}, call
