"""Fibers whose stacks are switched by code that no function's symbol names, or by nothing that
looks like a switch: their calls are shown right, or end open, with a note."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Any]

PROGRAM = """\
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };
static int running, done[4];
static void run(void);

#ifdef BY_SIGNALS /* as GNU Pth and QEMU do it */
static jmp_buf home, places[4];
static void begin(int number)
{
    (void)number;
    if (_setjmp(places[running]))
        run();
}
static void make(int me)
{
    stack_t stack = {.ss_sp = malloc(SIZE), .ss_size = SIZE};
    struct sigaction action = {.sa_handler = begin, .sa_flags = SA_ONSTACK};
    running = me;
    sigaltstack(&stack, 0);
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
}
static void resume(int me)
{
    if (!_setjmp(home))
        _longjmp(places[me], 1);
}
static void wait_for_others(void)
{
    if (!_setjmp(places[running]))
        _longjmp(home, 1);
}
#else
static void *home, *places[4];
static void make(int me)
{
    void **top = (void **)((char *)aligned_alloc(16, SIZE) + SIZE);
    *--top = 0;
    *--top = (void *)run;
    places[me] = top - 6;
}
#ifdef BYTES /* as libco */
__attribute__((section(".text#"))) static const unsigned char code[] = {
    0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, /* push */
    0x48, 0x89, 0x27, 0x48, 0x89, 0xf4,                         /* mov */
    0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0x5d, /* pop */
    0xc3};
static void (*volatile swp)(void **, void *) = (void (*)(void **, void *))code;
#else
void swp(void **, void *);
asm(".text\\n" TYPE "\\n"
    "swp: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\\n" HOW "\\n"
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\\n" LEAVE "\\n" END);
#endif
__attribute__((noinline)) void co_switch(void **from, void *to) { swp(from, to); }
static void resume(int me) { co_switch(&home, places[me]); }
static void wait_for_others(void) { co_switch(&places[running], home); }
#endif

__attribute__((noinline)) long work(long me, long depth)
{
    wait_for_others();
    long result = depth ? work(me, depth - 1) + me : 100;
    wait_for_others();
    return result;
}

static void run(void)
{
    int me = running;
    printf("%ld\\n", work(me, 2 + me));
    done[me] = 1;
    for (;;)
        wait_for_others();
}

static void round_of_fibers(void)
{
    for (int i = 0; i < 4; i++)
        done[i] = 0, make(i);
    for (int left = 4; left;) {
        left = 0;
        for (running = 0; running < 4; running++)
            if (!done[running])
                left++, resume(running);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++) {
        round_of_fibers();
        if (rounds > 1)
            usleep(2000);
    }
    return 0;
}
"""

CALLS = sum(3 + me for me in range(4))
MOVED = "mov %rsp, (%rdi); mov %rsi, %rsp"
EXCHANGED = "mov %rsp, %rax; xchg %rsi, %rsp; mov %rax, (%rdi)"
ADDED = "mov %rsp, (%rdi); sub %rsp, %rsi; add %rsi, %rsp"
FUNCTION = ".type swp, @function"


class Form(NamedTuple):
    """How the program switches, and whether that is seen."""

    seen: bool
    how: str = MOVED
    type: str = ""
    leave: str = "ret"
    end: str = ""
    flags: tuple[str, ...] = ()

    def build(self, into: Path) -> Path:
        (into / "fibers.c").write_text(PROGRAM)
        texts = {"HOW": self.how, "TYPE": self.type, "LEAVE": self.leave, "END": self.end}
        named = [f'-D{name}="{text}"' for name, text in texts.items()]
        command = ["gcc", "-g", "-O1", "-w", "fibers.c", "-o", "fibers", *named, *self.flags]
        subprocess.run(command, cwd=into, check=True)
        return into / "fibers"


FORMS = {
    "global label": Form(True, type=".globl swp"),
    "local label": Form(True),
    "exchanged": Form(True, EXCHANGED, ".globl swp", "pop %rcx; jmp *%rcx"),
    "object": Form(False, type=".type swp, @object", end=".size swp, . - swp"),
    "wrong size": Form(False, type=FUNCTION, end=".size swp, 3"),
    "added": Form(False, ADDED, FUNCTION, end=".size swp, . - swp"),
    "bytes": Form(False, flags=("-DBYTES",)),
    "by signals": Form(True, flags=("-DBY_SIGNALS",)),
}
NOTE = "switches stacks where no probe is"


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return FORMS[request.param]


def read(out: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, out.read_text().splitlines()) if r["type"] == "call"]


def check(calls: list[dict[str, Any]], *, seen: bool) -> None:
    """That no call is said to be left, and that all are right where switches are seen."""
    assert {call["end"] for call in calls} <= ({"returned"} if seen else {"returned", "open"})
    for call in calls:
        me, depth = (argument["value"] for argument in call["args"])
        if call["end"] == "returned":
            assert call["result"] == 100 + me * depth
        if seen:
            assert call["depth"] == 2 + me - depth


@pytest.mark.parametrize("returns", ["auto", "sites"])
def test_fibers_of_a_command(lbtrace: Run, tmp_path: Path, form: Form, returns: str) -> None:
    program, out = form.build(tmp_path), tmp_path / "calls.jsonl"
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    done = lbtrace("attach", "--func", "work", "--returns", returns, "-o", out, "--", program)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    calls = read(out)
    assert len(calls) == CALLS
    if form.seen:
        assert NOTE not in done.stderr
    else:  # a function that seems never to return ends open anyway
        assert NOTE in done.stderr or {call["end"] for call in calls} == {"open"}
    check(calls, seen=form.seen)


@pytest.mark.parametrize("every", [False, True])
def test_fibers_of_a_running_process(
    start_lbtrace: Start, tmp_path: Path, form: Form, every: bool
) -> None:
    program, out = form.build(tmp_path), tmp_path / "calls.jsonl"
    running = subprocess.Popen([program, "100000"], stdout=subprocess.DEVNULL)
    try:
        which = ("--binary", program) if every else ("--pid", running.pid)
        tracer = start_lbtrace("attach", *which, "--func", "work", "-o", out)
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
    check(calls, seen=False)


def test_a_switch_that_is_traced_itself(lbtrace: Run, tmp_path: Path) -> None:
    """It goes on where its caller on the other stack had called it, by a jump."""
    form = Form(True, type=FUNCTION, leave="pop %r8; jmp *%r8", end=".size swp, . - swp")
    program, out = form.build(tmp_path), tmp_path / "calls.jsonl"
    done = lbtrace("attach", "--func", "work", "--func", "swp", "-o", out, "--", program)
    assert done.returncode == 0, done.stderr
    assert {call["end"] for call in read(out)} <= {"returned", "open"}


def test_within_is_refused(lbtrace: Run, tmp_path: Path) -> None:
    program = FORMS["bytes"].build(tmp_path)
    done = lbtrace("attach", "--func", "work", "--within", "co_switch", "--", program)
    assert done.returncode == 2
    assert "switches stacks" in done.stderr


LIBRARY = """
.globl swp; .type swp, @function
swp: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
mov %rsp, (%rdi); mov %rsi, %rsp
pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret
.size swp, . - swp
.section .note.GNU-stack,"",@progbits
"""
USER = """
#include <stdio.h>
void swp(void **, void *);
static void *home, *other, *stack[4096];
__attribute__((noinline)) long work(long n) { if (n % 3 == 0) swp(&other, home); return n * 3; }
__attribute__((noinline)) long wait(long n) { if (n % 2 == 0) swp(&home, other); return n * 5; }
static void run(void) { for (long n = 0;; n++) work(n); }
int main(void)
{
    long sum = 0;
    stack[4000] = (void *)run;
    other = &stack[3994];
    for (long n = 0; n < 40; n++)
        sum += wait(n);
    printf("%ld\\n", sum);
}
"""


HAZARDS = {
    "nothing": "",
    "throws": "void refuse(int n) { if (n) throw n; }",
    "backtrace": """#include <execinfo.h>
int trace(void **to) { return backtrace(to, 9); }""",
    "coroutines": """asm(".type _mco_switch, @function; _mco_switch: nop; ret;"
".size _mco_switch, . - _mco_switch");""",
}
"""What else a library has that switches stacks, by the names in it."""


@pytest.mark.host
@pytest.mark.parametrize("returns", ["auto", "sites"])
@pytest.mark.parametrize("more", HAZARDS)
def test_code_of_a_library_that_nobody_asked_for(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, returns: str, more: str
) -> None:
    tool("g++")
    (tmp_path / "switch.S").write_text(LIBRARY)
    (tmp_path / "more.cpp").write_text(HAZARDS[more])
    (tmp_path / "user.c").write_text(USER)
    made, out, library = tmp_path / "user", tmp_path / "out.jsonl", tmp_path / "libswitch.so"
    parts = ["g++", "-shared", "-fPIC", tmp_path / "switch.S", tmp_path / "more.cpp"]
    subprocess.run([*parts, "-o", library], check=True)
    flags = ["-g", "-O1", "-w", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["gcc", *flags, tmp_path / "user.c", library, "-o", made], check=True)
    done = lbtrace(
        *("attach", "--func", "work", "--func", "wait", "--quiet", "--returns", returns),
        *("-o", out, "--force", "--", made),
    )
    assert (done.returncode, done.stdout) == (0, "3900\n"), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert {call["end"] for call in calls if call["name"] == "wait"} == {"returned"}
    assert "unwound" not in {call["end"] for call in calls}
