"""Calls that wait while others run on a further segment of a split stack, or on a stack to which
code in the midst of a function switches, are not shown as left."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SPLIT = """\
#include <stdio.h>
#define TRACED __attribute__((noipa))
TRACED long f_leaf(long x) { volatile char b[30]; b[x % 30] = x; return x * 3 + b[x % 30]; }
TRACED long f_deep(int d, long x)
{
    volatile char b[5000];
    b[d] = d;
    return d ? f_deep(d - 1, x + b[d]) ^ f_leaf(x & 15) : f_leaf(x);
}
int main(void) { printf("%ld\\n", f_deep(300, 1)); return 0; }
"""
INLINED = """\
#include <stdio.h>
#include <stdlib.h>
#define TRACED __attribute__((noipa))
static void *home, *away;
static inline __attribute__((always_inline)) void change(void **from, void *to)
{
    asm volatile("push %%rbx; push %%rbp; lea 2f(%%rip), %%rax; push %%rax; mov %%rsp, (%%rdi)\\n"
        "mov %%rsi, %%rsp; ret; 2: pop %%rbp; pop %%rbx" : "+D"(from), "+S"(to) :: "memory", "cc",
        "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15");
}
TRACED long f_leaf(long x) { return x * 3 + 1; }
TRACED void f_yield(void) { change(&away, home); }
TRACED long f_work(long x) { long r = f_leaf(x); f_yield(); r += f_leaf(r); return r + 1; }
static long sum;
static void body(void) { for (;;) { sum += f_work(sum % 99); f_yield(); f_yield(); } }
TRACED long f_run(long x)
{
    change(&home, away);
    x += f_leaf(x);
    change(&home, away);
    x += f_leaf(x);
    change(&home, away);
    return x + f_leaf(x);
}
int main(void)
{
    void **top = (void **)((((unsigned long)malloc(65536) + 65536 - 64) & -16ul) - 8);
    *--top = (void *)body;
    away = top;
    for (int i = 0; i < 9; i++)
        sum += f_run(i) & 15;
    printf("%ld\\n", sum);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("text", "flags"),
    [(SPLIT, ["-fsplit-stack", "-fuse-ld=gold"]), (INLINED, ["-mno-red-zone"])],
    ids=["split", "inlined"],
)
def test_no_call_that_waits_is_left(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, text: str, flags: list[str]
) -> None:
    tool("gcc")
    source, made, out = (tmp_path / name for name in ("program.c", "program", "out.jsonl"))
    source.write_text(text)
    built = subprocess.run(["gcc", "-O2", "-g", "-w", *flags, source, "-o", made], check=False)
    if built.returncode:
        pytest.skip("needs the gold linker")
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--binary", made, "--func", "f_*"), *("-o", out, "--force", "--", made)
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    ends = {record["end"] for record in records if record["type"] == "call"}
    assert "returned" in ends
    assert ends <= {"returned", "open", "tail"}
