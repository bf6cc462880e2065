"""Parameters that a function does not read, and that have a location later, or the location of
another: each value that is shown is what the caller wrote in the source."""

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
#define KEPT __attribute__((noinline))
struct Some { long a, b, c; };
volatile long sink, zero;
KEPT static void see(void *what) { __asm__ volatile("" :: "r"(what) : "memory"); }
KEPT long other(long n) { sink += n; return sink & 3; }
#define SIX long a, long b, long c, long d, long e, long f
#define USED sink += a + b + c + d + e + f
KEPT void called(SIX, int p, int q) { USED; f = other(2); p = other(2); sink += p + f; sink += q; }
KEPT void copied(SIX, int p, int q) { USED; other(2); p = (int)a; sink += p; sink += q; }
KEPT void looped(SIX, int p, int q)
{
    USED;
    for (int i = 0; i < other(3); i++) { p = 2018491929; sink += p; }
    sink += q;
}
KEPT void either(SIX, int p, int q)
{
    USED;
    if (other(2) & 1) p = 77; else sink += 1;
    sink += p; sink += q;
}
KEPT void switched(SIX, int p, int q)
{
    USED;
    switch (other(7)) {
    case 0: sink += 8; break;
    case 1: p = other(5); sink += 9; break;
    case 2: sink += q; break;
    case 3: see(&sink); sink += 3 * q; break;
    }
    sink += p;
}
KEPT void aligned(SIX, int p, int q)
{
    _Alignas(64) char big[64];
    see(big); USED; p = other(2); see(big); sink += p; sink += q;
}
KEPT static void narrowed(struct Some s, long a, long b, int p, struct Some t)
{
    sink += 1; p = (int)b; sink += a; sink += s.a; sink += s.b; sink += s.c; sink += p; sink += b;
}
KEPT static void taken(long a, long p, struct Some t) { sink += 1; p = a; sink += a; sink += p; }
KEPT static struct Some made(long a, int p, long q)
{
    struct Some x = {4, a};
    p = a; sink += a; sink += p;
    return x;
}
KEPT struct Some exported(long a, long p, long q)
{
    struct Some x = {4, a};
    p = a; sink += a; sink += p;
    return x;
}
KEPT static void kept(long a, long p, long q) { sink += a; sink += p; }
int main(void)
{
    for (long i = zero; i < COUNT; i++) {
        struct Some some = {1, 2 + i, 3}, more = {4, 5, 6 + i};
        called(1 + i, 2, 3, 4, 5, 6 + i, 7 + i, 8 + i);
        copied(1 + i, 2, 3, 4, 5, 6 + i, 7 + i, 8 + i);
        looped(1 + i, 2, 3, 4, 5, 6 + i, 7 + i, 8 + i);
        either(1 + i, 2, 3, 4, 5, 6 + i, 7 + i, 8 + i);
        switched(1 + i, 2, 3, 4, 5, 6 + i, 7 + i, 8 + i);
        aligned(1 + i, 2, 3, 4, 5, 6 + i, 7 + i, 8 + i);
        narrowed(some, 11 + i, 12 + i, 13 + i, more);
        taken(11 + i, 12 + i, more);
        made(11 + i, 12 + i, 13 + i);
        exported(11 + i, 12 + i, 13 + i);
        kept(11 + i, 12 + i, 13 + i);
    }
    return 0;
}
"""

PUSHED = ("called", "copied", "looped", "either", "switched", "aligned")


def passed(name: str, at: int) -> dict[str, Any]:
    """What the caller passes in the ``at``-th turn."""
    if name in PUSHED:
        always = {"b": 2, "c": 3, "d": 4, "e": 5}
        return always | {"a": 1 + at, "f": 6 + at, "p": 7 + at, "q": 8 + at}
    more = {"a": 4, "b": 5, "c": 6 + at}
    if name == "narrowed":
        numbers = {"a": 11 + at, "b": 12 + at, "p": 13 + at}
        return numbers | {"s": {"a": 1, "b": 2 + at, "c": 3}, "t": more}
    return {"a": 11 + at, "p": 12 + at, "q": 13 + at, "t": more}


CLANG, ZIG = ("clang",), (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all")


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        (CLANG, ("-O1",)),
        (CLANG, ("-O2",)),
        (CLANG, ("-Os", "-fno-omit-frame-pointer")),
        (CLANG, ("-O2", "-flto", "-fuse-ld=lld")),
        (ZIG, ("-O1",)),
        (ZIG, ("-O2", "-fomit-frame-pointer")),
        (ZIG, ("-Os", "-gdwarf-5")),
    ],
)
def test_no_value_is_wrong(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: Sequence[str],
    options: tuple[str, ...],
) -> None:
    if compiler is ZIG:
        pytest.importorskip("ziglang")  # it brings a newer clang with it
    source, made = tmp_path / "some.c", tmp_path / "some"
    source.write_text(PROGRAM)
    words = [tool(compiler[0]), *compiler[1:], "-g", *options, f"-DCOUNT={COUNT}", source]
    subprocess.run([*words, "-o", made], check=True)
    turns: dict[str, int] = {}
    shown: set[tuple[str, str]] = set()
    names = "|".join((*PUSHED, "narrowed", "taken", "made", "exported", "kept"))
    for call in traced(made, f"/^({names})$/"):
        at = turns[call["name"]] = turns.get(call["name"], -1) + 1
        expected = passed(call["name"], at)
        for argument in call["args"]:
            if argument["value"] is not None:
                assert argument["value"] == expected[argument["name"]], call
                shown.add((call["name"], argument["name"]))
    assert set(turns.values()) == {COUNT - 1}
    # What is read is shown, from a frame of any kind, and after a jump by a table.
    assert {(name, "q") for name in PUSHED} <= shown
    assert {("either", "p"), ("switched", "p")} <= shown
    assert {("kept", "a"), ("kept", "p")} <= shown
