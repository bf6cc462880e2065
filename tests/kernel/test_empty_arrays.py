"""Arrays without elements, an extension of GNU C: compilers describe them in several ways."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Compile = Callable[[str, list[str], str], Path]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

SOURCE = r"""
struct first { int z[0]; int a; };
struct last { int a; int z[0][3]; int y[2][0]; char t[0]; };
struct text { char t[0]; int a; };
struct far { long p[16]; int z[0]; struct first f[0]; char t[0]; int a; };
__attribute__((noinline)) int show(struct first *f, struct last *l, struct text *t, struct first g)
{
    __asm__ volatile("" ::"r"(f), "r"(l), "r"(t) : "memory");
    return f->a + l->a + t->a + g.a;
}
__attribute__((noinline)) int reach(struct far *f)
{
    __asm__ volatile("" ::"r"(f) : "memory");
    return f->a;
}
int main(void)
{
    struct first f;
    struct last l;
    struct text t;
    struct far r = {.a = 7};
    f.a = 4, l.a = 3, t.a = 2;
    if (reach(&r) != 7) return 2;
    return show(&f, &l, &t, f) != 13;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O1"])
@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_arrays_without_elements(
    compiled: Compile, lbtrace: Run, compiler: str, level: str
) -> None:
    program = compiled(f"empty-{compiler}{level}", [compiler, "-g", level], SOURCE)
    done = lbtrace("attach", "--func", "/^(show|reach)/", "--depth", 1, "--", program)
    assert done.returncode == 0, done.stderr
    shown = "f=&{z=[], a=4}, l=&{a=3, z=[], y=[[], []], t=[]}, t=&{t=[], a=2}, g={z=[], a=4}"
    assert f"show({shown}) = 13" in done.stdout
    assert "z=[], f=[], t=[], a=<not read>}) = 7" in done.stdout
