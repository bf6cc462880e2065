"""Handlers of signals that leave the function that they interrupt, which calls nothing."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., "subprocess.CompletedProcess[str]"]

THROWS = """
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>
static std::vector<int> numbers(3);
static std::exception_ptr error;
static volatile int more = 7;
static void handle(int) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    SETS(SIGSEGV, handle);
    THROWS;
}
__attribute__((noinline)) int leaf(int *number) { return *number + 1; }
__attribute__((noinline)) int use(int *number) {
    try { return leaf(number); } catch (std::exception &) { return -7; }
}
int main() {
    error = std::make_exception_ptr(std::runtime_error("no number"));
    SETS(SIGSEGV, handle);
    int number = 3, sum = 0;
    for (int n = 0; n < 4; n++) sum += use(n % 2 ? &number : nullptr);
    std::printf("%d\\n", sum);
}
"""
WAYS = {
    "throw": 'throw std::runtime_error("no number")',
    "at": "more += numbers.at(more)",  # thrown by libstdc++
    "rethrow": "std::rethrow_exception(error)",
    "stoi": 'more += std::stoi("x")',
}
SETTERS = ("sysv_signal", "ssignal", "sigset")

LIBRARY = """
#include <csignal>
#include <cstddef>
#include <locale>
struct base { virtual ~base() {} };
struct derived : base {};
struct large { long parts[2]; };
static base held;
static void handle(int) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    THROWS;
}
extern "C" void set_handler() { signal(SIGSEGV, handle); }
"""
"""Handlers in a file that has no code for exceptions of its own."""

CATCHES = """
#include <cstdio>
extern "C" void set_handler();
__attribute__((noinline)) int leaf(int *number) { return *number + 1; }
__attribute__((noinline)) int use(int *number) {
    try { return leaf(number); } catch (...) { return -7; }
}
int main() {
    int number = 3, sum = 0;
    for (int n = 0; n < 4; n++) { set_handler(); sum += use(n % 2 ? &number : nullptr); }
    std::printf("%d\\n", sum);
}
"""
SILENT_WAYS = {
    "cast": 'base *q = &held; asm volatile("" : "+r"(q)); (void)dynamic_cast<derived &>(*q)',
    "new": 'volatile long n = -1ul >> 1; char *p = new char[n]; asm volatile("" : : "r"(p))',
    "length": 'volatile long n = -1; large *p = new large[n]; asm volatile("" : : "r"(p))',
    "locale": 'std::locale made("nonexistent_XX")',
}

ENDS = """
#include <csignal>
#include <cstdio>
#include <pthread.h>
static int cleaned;
struct guard { ~guard() { cleaned++; } };
static void handle(int) { pthread_exit((void *)7); }
__attribute__((noinline)) int leaf(int *number) { return *number + 1; }
__attribute__((noinline)) int use(int *number) { guard here; return leaf(number) + 1; }
static void *run(void *number) { use((int *)number); return nullptr; }
int main() {
    struct sigaction action = {};
    action.sa_handler = handle;
    sigaction(SIGSEGV, &action, nullptr);
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, run, nullptr);
    pthread_join(thread, &result);
    std::printf("%ld %d\\n", (long)result, cleaned);
}
"""

SWITCHES = """
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
static char stacks[2][65536];
static ucontext_t back, fibers[2];
static int *page, number = 4;
static void handle(int signal) {
    mprotect(page, 4096, PROT_READ);
    swapcontext(&fibers[0], &fibers[1]);
}
__attribute__((noinline)) int leaf(int *number) { return *number + 1; }
static void first(void) { printf("%d\\n", leaf(page)); }
static void second(void) { printf("%d\\n", leaf(&number)); swapcontext(&fibers[1], &fibers[0]); }
int main(void) {
    void (*const runs[2])(void) = {first, second};
    struct sigaction action = {.sa_handler = handle};
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, 0);
    for (int n = 0; n < 2; n++) {
        getcontext(&fibers[n]);
        fibers[n].uc_stack.ss_sp = stacks[HIGHER ? n : 1 - n];
        fibers[n].uc_stack.ss_size = sizeof(stacks[n]);
        fibers[n].uc_link = &back;
        makecontext(&fibers[n], runs[n], 0);
    }
    swapcontext(&back, &fibers[0]);
    return 0;
}
"""


OWN_SWITCH = r"""
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static char stack[65536];
static void *saved, *other, *callers[4];
static int *page, number = 4;
__attribute__((noinline)) void swap(void **from, void *to);
__asm__(".text\n.globl swap\n.type swap, @function\nswap:\n"
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n"
        ".size swap, . - swap\n");
__attribute__((noinline)) int leaf(int *number) { return *number + 1; }
static void second(void) { printf("%d\n", leaf(&number)); swap(&other, saved); }
static void handle(int signal) { mprotect(page, 4096, PROT_READ); swap(&saved, other); }
int main(void) {
    struct sigaction action = {.sa_handler = handle};
    void **top = (void **)(stack + sizeof(stack) - 64);
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, 0);
    top[0] = second;
    other = top - 6;
    printf("%d\n", leaf(page));
    return backtrace(callers, 4) == 0;
}
"""


def check(
    lbtrace: Run, into: Path, source: str, returns: str, expected: str, *flags: str | Path
) -> None:
    """That a program, traced, prints what is expected of it untraced."""
    compiler, suffix = ("g++", "cc") if "<cstdio>" in source else ("gcc", "c")
    path, program = into / f"program.{suffix}", into / "program"
    path.write_text(source)
    options = ["-O1", "-fnon-call-exceptions", path, *flags]
    subprocess.run([compiler, *options, "-o", program], check=True)
    done = lbtrace(
        *("attach", "--binary", program, "--func", "*", "--quiet"),
        *("--returns", returns, "-o", into / "out.jsonl", "--force", "--", program),
    )
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["dynamic", "static"])
@pytest.mark.parametrize("returns", ["auto", "uretprobe", "sites", "none"])
def test_they_throw(lbtrace: Run, tmp_path: Path, returns: str, flags: tuple[str, ...]) -> None:
    defined = (f"-DTHROWS={WAYS['throw']}", "-DSETS=signal")
    check(lbtrace, tmp_path, THROWS, returns, "-6\n", *defined, *flags)


@pytest.mark.parametrize(
    ("setter", "way"),
    [*(("signal", way) for way in WAYS), *((setter, "at") for setter in SETTERS)],
)
def test_they_throw_in_other_ways(lbtrace: Run, tmp_path: Path, setter: str, way: str) -> None:
    defined = (f"-DTHROWS={WAYS[way]}", f"-DSETS={setter}")
    check(lbtrace, tmp_path, THROWS, "auto", "-6\n", *defined)


@pytest.mark.parametrize("way", SILENT_WAYS)
def test_they_throw_from_a_library(lbtrace: Run, tmp_path: Path, way: str) -> None:
    library = tmp_path / "library.cc"
    library.write_text(LIBRARY)
    options = ["-O2", "-fnon-call-exceptions", "-shared", "-fPIC", f"-DTHROWS={SILENT_WAYS[way]}"]
    made = tmp_path / "libhandlers.so"
    subprocess.run(["g++", *options, library, "-o", made], check=True)
    check(lbtrace, tmp_path, CATCHES, "auto", "-6\n", f"-Wl,-rpath,{tmp_path}", made)


@pytest.mark.parametrize("returns", ["auto", "uretprobe"])
def test_they_end_threads(lbtrace: Run, tmp_path: Path, returns: str) -> None:
    """Destructors of the callers run."""
    check(lbtrace, tmp_path, ENDS, returns, "7 1\n", "-pthread")


@pytest.mark.parametrize("higher", [0, 1])
@pytest.mark.parametrize("returns", ["auto", "uretprobe"])
def test_they_switch_stacks(lbtrace: Run, tmp_path: Path, returns: str, higher: int) -> None:
    """A call on a stack above makes the kernel drop what is pending on those below."""
    check(lbtrace, tmp_path, SWITCHES, returns, "5\n1\n", f"-DHIGHER={higher}")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly")
@pytest.mark.parametrize("returns", ["auto", "uretprobe"])
def test_they_switch_stacks_by_themselves(lbtrace: Run, tmp_path: Path, returns: str) -> None:
    """Another name is against uretprobes already: the code is looked at all the same."""
    check(lbtrace, tmp_path, OWN_SWITCH, returns, "5\n1\n")
