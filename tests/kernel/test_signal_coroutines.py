"""Coroutines that handlers of signals make on stacks of their own, as QEMU's, where no stub shows
how: their calls are shown right, and no return address is replaced on a stack that waits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Any]

COROUTINES = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#ifdef POINTERS
static int (*volatile set)(const stack_t *, stack_t *) = sigaltstack;
#elif defined(ASKING)
#define set ((int (*)(const stack_t *, stack_t *))dlsym(RTLD_DEFAULT, "sigaltstack"))
#else
#define set sigaltstack
#endif

enum { SIZE = 1 << 16 };
static sigjmp_buf home, places[4];
static volatile int making;
static void (*begin)(int);

static void keep(int number)
{
    (void)number;
    if (sigsetjmp(places[making], 0))
        begin(making);
}

void make(int me, void (*run)(int))
{
    stack_t stack = {.ss_sp = malloc(SIZE), .ss_size = SIZE};
    struct sigaction action = {.sa_handler = keep, .sa_flags = SA_ONSTACK};
    making = me;
    begin = run;
    set(&stack, 0);
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    stack.ss_flags = SS_DISABLE;
    set(&stack, 0);
}

void resume(int me)
{
    making = me;
    if (!sigsetjmp(home, 0))
        siglongjmp(places[me], 1);
}

void yield(int me)
{
    if (!sigsetjmp(places[me], 0))
        siglongjmp(home, 1);
}
"""

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void make(int me, void (*run)(int));
void resume(int me);
void yield(int me);

static int done[4];

__attribute__((noinline)) long work(long me, long depth)
{
    yield(me);
    long result = depth ? work(me, depth - 1) + me : 100;
    yield(me);
    return result;
}

/* Does not call itself. */
__attribute__((noinline)) long once(long me)
{
    yield(me);
    asm("");
    return me + 1;
}

static void run(int me)
{
    printf("%ld %ld\\n", once(me), work(me, 2 + me));
    done[me] = 1;
    for (;;)
        yield(me);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++) {
        for (int me = 0; me < 4; me++)
            done[me] = 0, make(me, run);
        for (int left = 4; left;) {
            left = 0;
            for (int me = 0; me < 4; me++)
                if (!done[me])
                    left++, resume(me);
        }
        if (rounds > 1)
            usleep(2000);
    }
    return 0;
}
"""

FORMS = {
    "stubs": (),
    "gcc": ("-fno-plt",),
    "fixed": ("-fno-plt", "-no-pie"),
    "pointers": ("-DPOINTERS",),
    "asking": ("-DASKING",),
    "library": ("-DLIBRARY",),
    "hiding library": ("-DLIBRARY", "-fno-plt"),
}
HIDDEN = [name for name in FORMS if name != "stubs"]
CALLS = sum(1 + 3 + me for me in range(4))


def build(into: Path, form: str) -> Path:
    (into / "coroutines.c").write_text(COROUTINES)
    (into / "program.c").write_text(PROGRAM)
    command, flags = ["gcc", "-g", "-O1", "-w"], FORMS[form]
    coroutines = ["coroutines.c"]
    if "-DLIBRARY" in flags:
        library = [*command, *flags, "-shared", "-fPIC", "coroutines.c", "-o", "libco.so"]
        subprocess.run(library, cwd=into, check=True)
        coroutines = ["-L.", "-lco", "-Wl,-rpath,$ORIGIN"]
    made = [*command, *flags, "program.c", *coroutines, "-o", "program"]
    subprocess.run(made, cwd=into, check=True)
    return into / "program"


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(out: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, out.read_text().splitlines()) if r["type"] == "call"]


@pytest.mark.parametrize("returns", ["auto", "sites"])
def test_coroutines_of_a_command(lbtrace: Run, tmp_path: Path, form: str, returns: str) -> None:
    program, out = build(tmp_path, form), tmp_path / "calls.jsonl"
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    which = ("--func", "work", "--func", "once")
    done = lbtrace("attach", *which, "--returns", returns, "-o", out, "--", program)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    calls = read(out)
    assert len(calls) == CALLS
    for call in calls:
        me, *depth = (argument["value"] for argument in call["args"])
        assert call["end"] == "returned"
        if depth:
            assert (call["result"], call["depth"]) == (100 + me * depth[0], 2 + me - depth[0])
        else:
            assert (call["result"], call["depth"]) == (me + 1, 0)


@pytest.mark.parametrize("every", [False, True])
def test_coroutines_of_a_running_process(
    start_lbtrace: Start, tmp_path: Path, form: str, every: bool
) -> None:
    program, out = build(tmp_path, form), tmp_path / "calls.jsonl"
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


@pytest.mark.parametrize("form", HIDDEN)
def test_every_process(lbtrace: Run, tmp_path: Path, form: str) -> None:
    program = build(tmp_path, form)
    done = lbtrace("attach", "--dry-run", "--func", "work", "--binary", program)
    assert "may switch stacks, which is not watched in every process" in done.stdout + done.stderr


CRASHES = """\
#include <signal.h>
#include <stdlib.h>
static char stack[1 << 16];
static void crash(int number) { _Exit(number); }
__attribute__((noinline)) int work(int n) { return n + 1; }
int main(void)
{
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, 0);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = crash, .sa_flags = SA_ONSTACK}, 0);
    if (work(1) != 2)
        raise(SIGABRT);
    return 0;
}
"""


def test_a_handler_of_crashes_is_none(lbtrace: Run, tmp_path: Path) -> None:
    """The C library has no probe then."""
    source, program = tmp_path / "crashes.c", tmp_path / "crashes"
    source.write_text(CRASHES)
    subprocess.run(["gcc", "-g", "-O1", "-fno-plt", source, "-o", program], check=True)
    done = lbtrace("attach", "--dry-run", "--func", "work", "--", program)
    assert done.returncode == 0
    assert "libc.so" not in done.stdout + done.stderr
    assert "switch" not in done.stdout + done.stderr
