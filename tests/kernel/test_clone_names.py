"""What clones of functions, values within values and places of a line are called."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

Lbtrace = Callable[..., subprocess.CompletedProcess[str]]
Compiled = Callable[[str, list[str], str], Path]

CLONED = """\
#include <cstdio>
struct Big { int v[40]; };
__attribute__((noinline)) int work(const Big &b, int n, int mode)
{
    int s = n;
    for (int i = 0; i < n; i++) {
        s += mode ? b.v[i] * i : i;
        if (mode == 3) s ^= printf("m\\n");
    }
    return s;
}
#define STATIC static __attribute__((noinline))
STATIC int over(int n, int k) { asm volatile(""); return n + (k ? printf("over %d\\n", n) : 0); }
STATIC int over(long n, int k) { asm volatile(""); return n + (k ? printf("over %ld\\n", n) : 0); }
int main(int c, char **)
{
    Big b = {{1, 2, 3}};
    int s = 0;
    for (int i = 0; i < 5; i++) s += work(b, i % 3, 0);
    return (s + work(b, c, c) + over(c, 1) + over(c + 1L, 1)) < 0;
}
"""

NESTED = """\
#include <cstdio>
#include <optional>
using Inner = std::optional<int>;
using Outer = std::optional<Inner>;
__attribute__((noinline)) int twice(Outer o)
{
    puts(!o ? "nullopt" : !*o ? "optional(nullopt)" : "5");
    return 0;
}
__attribute__((noinline)) int thrice(std::optional<Outer> o)
{
    puts(!o ? "nullopt" : !*o ? "optional(nullopt)" : "optional(optional(nullopt))");
    return 0;
}
int main()
{
    twice(Outer{}), twice(Outer{Inner{}}), twice(Outer{Inner{5}});
    thrice({}), thrice(std::make_optional(Outer{})), thrice(std::make_optional(Outer{Inner{}}));
}
"""

INLINED = """\
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int add(int v, int w) {
    int s = v * w;
    printf("%d\\n", s);
    return s;
}
int main(int c, char **a)
{
    int k = add(c, 3); k += add(c + 1, 4); k += add(atoi(a[0]), k); return k & 1; }
"""


def test_clones_are_named_shortly(lbtrace: Lbtrace, compiled: Compiled, tmp_path: Path) -> None:
    program = compiled("cloned", ["g++", "-O3", "-fipa-cp-clone"], CLONED)
    symbols = subprocess.check_output(["nm", "-C", program], text=True)
    assert "work(Big const&, int, int) [clone .constprop.0]" in symbols
    capture = tmp_path / "cloned.lbt"
    lbtrace("attach", "--func", "work,over", "--quiet", "-o", capture, "--", program)
    tree = lbtrace("export", capture).stdout
    names = re.findall(r"\d  (\S.*)\([^()]*\) = ", tree)
    first, second = "over(int, int).constprop.0", "over(long, int).constprop.0"
    assert [*dict.fromkeys(names)] == ["work.constprop.0", "work", first, second]
    clones = names.count("work.constprop.0")
    works = ("work", clones + 1), ("work.constprop.0", clones)
    for asked, calls in (*works, ("over", 2), ("over(int, int)", 1)):
        shown = lbtrace("export", capture, "--func", asked).stdout
        assert shown.count(" = ") == calls, asked


def test_optionals_within_optionals(lbtrace: Lbtrace, compiled: Compiled) -> None:
    program = compiled("nested", ["g++", "-std=c++17", "-O0", "-g"], NESTED)
    done = lbtrace("attach", "--func", "twice,thrice", "--quiet", "--", program)
    shown = re.findall(r"(?:twice|thrice)\(o=(.*)\) = 0", done.stdout)
    assert shown == re.findall(r"^(nullopt|optional.*|5)$", done.stdout, re.MULTILINE)
    assert len(shown) == 6


def test_places_of_a_line_are_counted(lbtrace: Lbtrace, compiled: Compiled) -> None:
    program = compiled("inlined", ["gcc", "-O2", "-g", "-w", "-x", "c"], INLINED)
    line = len(INLINED.splitlines())
    done = lbtrace("attach", "--line", f"source.c:{line}", "--arg", "s", "--", program)
    told = re.findall(r"left out at (\d) of (\d) places: a value", done.stderr)
    assert len(told) == 1, done.stderr
    assert f"source.c:{line}, " not in done.stderr
