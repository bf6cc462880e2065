"""Fibers whose stacks are switched by a library that nobody asked to trace."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

CONTEXTS = """\
#define _GNU_SOURCE
#include <stdlib.h>
#include <ucontext.h>

static ucontext_t places[8];

void fiber_make(int n, void (*run)(int))
{
    getcontext(&places[n]);
    places[n].uc_stack.ss_sp = malloc(1 << 16);
    places[n].uc_stack.ss_size = 1 << 16;
    makecontext(&places[n], (void (*)(void))run, 1, n);
}

void fiber_switch(int from, int to) { swapcontext(&places[from], &places[to]); }
"""

ASSEMBLY = """\
#include <stdlib.h>

static void *places[8];
static void (*runs[8])(int);
static int running;

/* Under the name that libco gives it. */
void co_switch(void **from, void *to);
asm(".globl co_switch; .type co_switch, @function\\n"
    "co_switch: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\\n"
    "mov %rsp, (%rdi); mov %rsi, %rsp\\n"
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\\n"
    ".size co_switch, . - co_switch\\n");

static void begin(void) { runs[running](running); }

void fiber_make(int n, void (*run)(int))
{
    long *top = (long *)((char *)aligned_alloc(16, 1 << 16) + (1 << 16));
    *--top = 0;
    *--top = (long)begin;
    places[n] = top - 6;
    runs[n] = run;
}

void fiber_switch(int from, int to)
{
    running = to;
    co_switch(&places[from], places[to]);
}
"""

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>

void fiber_make(int n, void (*run)(int));
void fiber_switch(int from, int to);

static int left = 4;

static void elsewhere(int me)
{
    int to = rand() % 4 + 1;
    if (to != me)
        fiber_switch(me, to);
}

__attribute__((noinline)) int work(int me, int depth)
{
    int more = 0;
    elsewhere(me);
    for (int n = rand() % 3; n && depth < 4; n--)
        more += work(me, depth + 1);
    elsewhere(me);
    printf("%d %d %d\\n", me, depth, more + 1);
    return more + 1;
}

static void run(int me)
{
    for (int n = 0; n < 3; n++)
        work(me, 0);
    if (!--left)
        fiber_switch(me, 0);
    for (;;)
        elsewhere(me);
}

int main(int argc, char **argv)
{
    srand(atoi(argv[1]));
    for (int n = 1; n < 5; n++)
        fiber_make(n, run);
    fiber_switch(0, 1);
    return 0;
}
"""

LIBRARIES = {"contexts": CONTEXTS}
if os.uname().machine == "x86_64":
    LIBRARIES["assembly"] = ASSEMBLY


@pytest.fixture(params=LIBRARIES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    source, library = tmp_path / "fibers.c", tmp_path / "libfibers.so"
    source.write_text(LIBRARIES[request.param])
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    (tmp_path / "main.c").write_text(PROGRAM)
    made = tmp_path / "main"
    linked = ["-Wl,-rpath,$ORIGIN", "-L.", "-lfibers", "-o", made]
    subprocess.run(["gcc", "-g", "-O1", "main.c", *linked], cwd=tmp_path, check=True)
    return made


@pytest.mark.parametrize("seed", range(3))
def test_calls_of_each_fiber(lbtrace: Run, program: Path, tmp_path: Path, seed: int) -> None:
    output = tmp_path / "calls.jsonl"
    done = lbtrace("attach", "--func", "work", "-o", output, "--", program, seed)
    assert done.returncode == 0, done.stderr
    calls = [each for each in map(json.loads, output.open()) if each["type"] == "call"]
    shown = [(*(argument["value"] for argument in call["args"]), call["result"]) for call in calls]
    logged = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sorted(shown) == sorted(logged)
    assert {call["end"] for call in calls} == {"returned"}
    assert all(call["depth"] == call["args"][1]["value"] for call in calls)
