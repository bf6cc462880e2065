"""Fibers whose stacks are set up by calls of makecontext that pass no stub of the PLT."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Any]

FIBERS = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef POINTERS
static int (*volatile get)(ucontext_t *) = getcontext;
static void (*volatile make)(ucontext_t *, void (*)(void), int, ...) = makecontext;
static int (*volatile change)(ucontext_t *, const ucontext_t *) = swapcontext;
#elif defined(ASKING)
static int (*get)(ucontext_t *);
static void (*make)(ucontext_t *, void (*)(void), int, ...);
static int (*change)(ucontext_t *, const ucontext_t *);
#elif defined(LIBRARY)
int get(ucontext_t *);
void make(ucontext_t *, void (*)(void), int, int);
int change(ucontext_t *, const ucontext_t *);
#else
#define get getcontext
#define make makecontext
#define change swapcontext
#endif

static ucontext_t home, fibers[4];
static int running, done[4];

static __attribute__((noinline)) void wait_for_others(void)
{
    change(&fibers[running], &home);
    asm("");
}

__attribute__((noinline)) long work(long me, long depth)
{
    wait_for_others();
    long result = depth ? work(me, depth - 1) + me : 100;
    wait_for_others();
    return result;
}

/* Leads to nothing but a pointer, and does not call itself. */
__attribute__((noinline)) long once(long me)
{
    wait_for_others();
    asm("");
    return me + 1;
}

static void run(int me)
{
    printf("%ld %ld\\n", once(me), work(me, 2 + me));
    done[me] = 1;
    for (;;)
        wait_for_others();
}

static void round_of_fibers(void)
{
    for (int i = 0; i < 4; i++) {
        done[i] = 0;
        get(&fibers[i]);
        fibers[i].uc_stack.ss_sp = malloc(1 << 16);
        fibers[i].uc_stack.ss_size = 1 << 16;
        make(&fibers[i], (void (*)(void))run, 1, i);
    }
    for (int left = 4; left;) {
        left = 0;
        for (running = 0; running < 4; running++)
            if (!done[running])
                left++, change(&home, &fibers[running]);
    }
}

int main(int argc, char **argv)
{
#ifdef ASKING
    get = dlsym(RTLD_DEFAULT, "getcontext");
    make = dlsym(RTLD_DEFAULT, "makecontext");
    change = dlsym(RTLD_DEFAULT, "swapcontext");
#endif
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++) {
        round_of_fibers();
        if (rounds > 1)
            usleep(2000);
    }
    return 0;
}
"""

LIBRARY = """\
#include <ucontext.h>
int get(ucontext_t *at) { return getcontext(at); }
void make(ucontext_t *at, void (*run)(void), int one, int of) { makecontext(at, run, one, of); }
int change(ucontext_t *from, const ucontext_t *to) { return swapcontext(from, to); }
"""

FORMS = {
    "gcc": ["gcc", "-fno-plt"],
    "clang": ["clang", "-fno-plt"],
    "fixed": ["gcc", "-fno-plt", "-no-pie"],
    "pointers": ["gcc", "-DPOINTERS"],
    "asking": ["gcc", "-DASKING"],
    "library": ["gcc", "-DLIBRARY", "-L.", "-lcontexts", "-Wl,-rpath,$ORIGIN"],
}
CALLS = sum(1 + 3 + me for me in range(4))


@pytest.fixture(params=FORMS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "fibers.c").write_text(FIBERS)
    (tmp_path / "library.c").write_text(LIBRARY)
    build = ["gcc", "-O1", "-fno-plt", "-shared", "-fPIC", "library.c", "-o", "libcontexts.so"]
    subprocess.run(build, cwd=tmp_path, check=True)
    compiler, *flags = FORMS[request.param]
    subprocess.run(
        [compiler, "-g", "-O1", "fibers.c", "-o", "fibers", *flags], cwd=tmp_path, check=True
    )
    return tmp_path / "fibers"


def read(out: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, out.read_text().splitlines()) if r["type"] == "call"]


def check_returned(calls: list[dict[str, Any]]) -> None:
    """That these calls, all of which have returned, are shown so, below their callers."""
    for call in calls:
        me, *depth = (argument["value"] for argument in call["args"])
        assert call["end"] == "returned"
        if depth:
            assert call["result"] == 100 + me * depth[0]
            assert call["depth"] == 2 + me - depth[0]
        else:
            assert (call["result"], call["depth"]) == (me + 1, 0)


@pytest.mark.parametrize("returns", ["auto", "sites"])
def test_fibers_of_a_command(lbtrace: Run, program: Path, tmp_path: Path, returns: str) -> None:
    out, which = tmp_path / "calls.jsonl", ("--func", "work", "--func", "once")
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    done = lbtrace("attach", *which, "--returns", returns, "-o", out, "--", program)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    calls = read(out)
    assert len(calls) == CALLS
    check_returned(calls)


def test_one_function_is_harmless(lbtrace: Run, program: Path, tmp_path: Path) -> None:
    """No return address is replaced on a stack that waits: the program would die."""
    out = tmp_path / "calls.jsonl"
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    done = lbtrace("attach", "--func", "once", "-o", out, "--", program)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    check_returned(read(out))


@pytest.mark.parametrize("every", [False, True])
def test_fibers_of_a_running_process(
    start_lbtrace: Start, program: Path, tmp_path: Path, every: bool
) -> None:
    """In every process, the C library has no probe: nothing counts as left."""
    out = tmp_path / "calls.jsonl"
    running = subprocess.Popen([program, "100000"], stdout=subprocess.DEVNULL)
    try:
        which = ("--binary", program) if every else ("--pid", running.pid)
        tracer = start_lbtrace("attach", *which, "--func", "work", "--func", "once", "-o", out)
        tracer.wait_for("Ctrl-C ends")
        with subprocess.Popen([program, "20"], stdout=subprocess.DEVNULL):
            pass
        running.kill()
        running.wait()
        tracer.process.terminate()
        status, _, error = tracer.finish()
    finally:
        running.kill()
        running.wait()
    assert status == 0, error
    calls = read(out)
    assert len(calls) > 20
    assert {call["end"] for call in calls} <= {"returned", "open"}


def test_every_process(lbtrace: Run, program: Path) -> None:
    done = lbtrace("attach", "--dry-run", "--func", "work", "--binary", program)
    assert "switches stacks, which is not watched in every process" in done.stdout + done.stderr


def test_within_is_refused(lbtrace: Run, program: Path) -> None:
    done = lbtrace("attach", "--func", "once", "--within", "work", "--", program)
    assert done.returncode == 2
    assert "switches stacks" in done.stderr
