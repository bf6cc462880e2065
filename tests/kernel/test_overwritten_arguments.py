"""Parameters that a function overwrites before it reads them, and what callers need not pass: each
value that is shown is what the caller wrote in the source."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

PROGRAM = """\
#define KEPT __attribute__((noinline))
struct Some { long a, b, c; };
volatile long sink, zero, seven = 7;
KEPT void see(void *what) { sink += *(volatile char *)what; }
KEPT void assigned(long p, long q) { p = q; sink += p; see(&p); }
KEPT static void narrowed(long p, unsigned char q, int r, long s)
{
    q = s; see((void *)&sink); sink += r + q;
    if (zero) sink += s;
}
KEPT static void swapped(long p, long q) { long t = p; p = q; q = t; sink += p; sink += 2 * q; }
KEPT static void filled(struct Some p, long q) { p = (struct Some){q}; sink += p.a; sink += q; }
KEPT void exported(struct Some p, long q) { p = (struct Some){q, 5, q}; see(&p); sink += q; }
KEPT static void read(struct Some p, long q) { see(&p); sink += p.b; p.b = q; see(&p); }
KEPT static long many(struct Some p, long q, long r, long s, long t, long u, long v, long w, long x)
{
    _Alignas(64) char big[64];
    see(big); see(&p); see(&q); x = w; see(&x);
    sink += r + s + t + u + v + w;
    return seven + 1000;
}
KEPT static long used(long p, double q) { see(&p); return q + p; }
KEPT static long result_of(long p) { return used(p, 1.5); }
int main(void)
{
    for (long i = zero; i < COUNT; i++) {
        struct Some some = {10 + i, 20 + i, 30 + i};
        assigned(1 + i, 2 + i);
        narrowed(1 + i, 2 + i, 3 + i, 4 + i);
        swapped(1 + i, 2 + i);
        filled(some, 2 + i);
        exported(some, 2 + i);
        read(some, 2 + i);
        many(some, 2 + i, 3 + i, 4 + i, 5, 6 + i, 7 + i, 8 + i, 9 + i);
        sink += used(1 + i, 2.5);
        result_of(1 + i);
    }
    return 0;
}
"""

NUMBERED = {
    "assigned": "pq",
    "narrowed": "pqrs",
    "swapped": "pq",
    "many": "pqrstuvwx",
}
RECORDS = frozenset({"filled", "exported", "read", "many"})


def passed(name: str, at: int, call: int) -> dict[str, Any]:
    """What the caller passes in the ``at``-th turn, to the ``call``-th of the functions in it."""
    if name == "used":
        return {"p": 1 + at, "q": 2.5 if call == 7 else 1.5}
    if name == "result_of":
        return {"p": 1 + at}
    numbers = {each: n + at for n, each in enumerate(NUMBERED.get(name, "pq"), 1)}
    if name == "many":
        numbers["t"] = 5
    if name in RECORDS:
        return numbers | {"p": {"a": 10 + at, "b": 20 + at, "c": 30 + at}}
    return numbers


CLANG, GCC = ("clang", "-fuse-ld=lld"), ("gcc", "-Wno-clobbered")

ORDER = (*("assigned", "narrowed", "swapped", "filled", "exported", "read", "many"), "used")


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        (CLANG, ("-O1",)),
        (CLANG, ("-O2",)),
        (CLANG, ("-O2", "-flto")),
        (CLANG, ("-Os", "-gdwarf-4")),
        (CLANG, ("-O0",)),
        (GCC, ("-O2",)),
    ],
)
def test_no_value_is_wrong(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: tuple[str, ...],
    options: tuple[str, ...],
) -> None:
    source, made = tmp_path / "some.c", tmp_path / "some"
    source.write_text(PROGRAM)
    name, *always = compiler
    words = [tool(name), "-g", *always, *options, f"-DCOUNT={COUNT}", source, "-o", made]
    subprocess.run(words, check=True)
    pattern = "/^(assigned|narrowed|swapped|filled|exported|read|many|used|result_of)([.]|$)/"
    turns: dict[str, int] = {}
    shown = 0
    for call in traced(made, pattern):
        function = call["name"].partition(".")[0]
        number = turns[function] = turns.get(function, -1) + 1
        at, first = (number // 2, number % 2 == 0) if function == "used" else (number, True)
        expected = passed(function, at, 7 if first else 8)
        for argument in call["args"]:
            wanted, found = expected[argument["name"]], argument["value"]
            if isinstance(wanted, dict) and found is not None:
                known = {key: value for key, value in found.items() if value is not None}
                assert known.items() <= wanted.items(), call
                shown += len(known) == len(wanted)
            elif found is not None:
                assert found == wanted, call
                shown += 1
        result = {"many": 1007, "used": int(expected["q"] + 1 + at) if "q" in expected else 0}
        returned = call.get("result", {})
        value = returned.get("value") if isinstance(returned, dict) else returned
        if function in result and value is not None:
            assert value == result[function], call
    if "-O0" in options:
        # All is stored from where it is passed; of LTO, what is always the same is not.
        least = 23 if "-flto" in options else 28
        assert shown >= least * COUNT, shown


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
