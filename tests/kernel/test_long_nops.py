"""Long nops with which functions begin: from Linux 6.18 on the kernel puts a call in their place,
which crashes forked processes, and makes a system call."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.elf.image import Image
from lbtrace.targets import long_nops

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="only there nops are replaced"),
]

Run = Callable[..., subprocess.CompletedProcess[str]]

FUNCTION = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
long work(long);
__asm__(".text\n.globl work\n.type work, @function\nwork:\n.cfi_startproc\n.byte " NOP "\n"
        "movq %rdi, -8(%rsp)\nmovq %rdi, -128(%rsp)\nleaq 1(%rdi,%rdi,2), %rax\n"
        "addq -8(%rsp), %rax\nsubq -128(%rsp), %rax\nret\n.cfi_endproc\n.size work, .-work\n");
static void repeat(void)
{
    long sum = 0;
    for (long i = 0; i < 10; i++)
        sum += work(i);
    if (sum != 145)
        printf("sum %ld\n", sum);
}
"""
ALONE = """
int main(void) { repeat(); puts("end"); }
"""
"""No process is forked."""
FORKS = r"""
int main(void)
{
    int status;
    repeat();
    for (int generation = 0; generation < 2; generation++) {
        pid_t child = fork();
        if (child) {
            waitpid(child, &status, 0);
            return printf("a child ended by %d\n", WTERMSIG(status)) < 0;
        }
        repeat();
    }
    _exit(0);
}
"""
FORKS_BY_ITSELF = r"""
static long enter(long number, long one, long two, long three, long four)
{
    long result;
    register long fourth __asm__("r10") = four;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(three),
                     "r"(fourth) : "rcx", "r11", "memory");
    return result;
}
int main(void)
{
    int status;
    repeat();
    long child = enter(SYS_fork, 0, 0, 0, 0);
    if (!child) {
        repeat();
        _exit(0);
    }
    enter(SYS_wait4, child, (long)&status, 0, 0);
    printf("the child ended by %d\n", WTERMSIG(status));
}
"""
SERVES = r"""
static volatile char selector;
static volatile int served;
static void serve(int signal, siginfo_t *info, void *context)
{
    selector = 0;
    served = info->si_syscall;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
}
int main(void)
{
    struct sigaction action = {.sa_sigaction = serve, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector);
    for (int i = 0; i < 10; i++) {
        selector = 1;
        work(i);
        selector = 0;
    }
    printf("served %d\n", served);
}
"""
EMULATES = r"""
int main(void)
{
    int status, seen = 0;
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        repeat();
        _exit(0);
    }
    waitpid(child, &status, 0);
    for (;;) {
        struct user_regs_struct registers;
        ptrace(31 /* PTRACE_SYSEMU */, child, 0, 0);
        waitpid(child, &status, 0);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            break;
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        if (registers.orig_rax == SYS_exit_group)
            break;
        seen++;
    }
    kill(child, SIGKILL);
    printf("emulated %d\n", seen);
}
"""
CONFINED = r"""
int main(void)
{
    repeat();
    prctl(PR_SET_SECCOMP, 1);
    repeat();
    write(1, "end\n", 4);
    syscall(SYS_exit, 0);
}
"""
WAITS = """
int main(void) { char byte; fork(); return read(0, &byte, 1); }
"""
PROGRAMS = {
    "alone": (ALONE, 10),
    "forks": (FORKS, 30),
    "forks by itself": (FORKS_BY_ITSELF, 10),
    "serves": (SERVES, 10),
    "emulates": (EMULATES, 10),
    "confined": (CONFINED, 20),
}
"""Programs, and how many calls a trace of one shows. That one which forks by itself does so is not
seen beforehand, so its child is not traced."""

BYTES = {"5": "0x0f,0x1f,0x44,0,0", "10": "0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0"}


def compiled(tmp_path: Path, name: str, nop: str = "5") -> Path:
    code = PROGRAMS[name][0] if name in PROGRAMS else WAITS
    compiler = shutil.which("gcc")
    assert compiler
    program = tmp_path / "program"
    source = f'#define NOP "{BYTES[nop]}"\n{FUNCTION}{code}'
    command = [compiler, "-O1", "-w", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=source, text=True, check=True)
    return program


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("returns", ["none", "auto"])
def test_programs_run_as_untraced(lbtrace: Run, tmp_path: Path, name: str, returns: str) -> None:
    program = compiled(tmp_path, name)
    plain = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--func", "work", "--quiet", "--returns", returns, "--format", "jsonl"),
        *("-o", tmp_path / "out.jsonl", "--", program),
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    seen = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    works = [event for event in seen if event["type"] == "call" and event["name"] == "work"]
    assert len(works) == PROGRAMS[name][1]
    if returns == "auto" and name == "alone":
        assert [call["result"] for call in works] == [3 * n + 1 for n in range(10)]


@pytest.mark.parametrize("nop", BYTES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_nop_is_used_where_it_is_quick_and_harmless(
    lbtrace: Run, tmp_path: Path, name: str, nop: str
) -> None:
    program = compiled(tmp_path, name, nop)
    trial = long_nops.try_nop(bytes(int(byte, 0) for byte in BYTES[nop].split(",")))
    assert trial is not None
    shown = lbtrace("list", "--binary", program, "--func", "work", "--sites").stdout
    if not trial.replaced:
        assert "call" not in shown
    elif name == "alone":
        assert "+0 nop" in shown
        assert "the kernel puts a call in its place" in shown
    elif name != "confined":
        assert f"+{nop} mov" in shown
        assert "not the nop at the start: the kernel would put a call in its place" in shown


def test_a_process_that_runs_is_judged_by_what_it_maps(lbtrace: Run, tmp_path: Path) -> None:
    program = compiled(tmp_path, "waits")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        done = lbtrace("attach", "--pid", process.pid, "--func", "work", "--dry-run")
        process.kill()
    trial = long_nops.try_nop(long_nops.REPLACED[0])
    assert trial
    if trial.replaced and not trial.forks:
        assert "a process that it may fork would crash there" in done.stdout


def test_the_trial_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    long_nops.try_nop.cache_clear()
    found = long_nops.try_nop(long_nops.REPLACED[0])
    (kept,) = (tmp_path / "lbtrace").iterdir()
    first = kept.stat()
    long_nops.try_nop.cache_clear()
    assert long_nops.try_nop(long_nops.REPLACED[0]) == found
    assert kept.stat().st_ino == first.st_ino
    kept.write_bytes(b"damaged")
    long_nops.try_nop.cache_clear()
    assert long_nops.try_nop(long_nops.REPLACED[0]) == found
    long_nops.try_nop.cache_clear()


def test_libraries_of_unknown_processes_are_probed_elsewhere(tool: Run, tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    source = f'#define NOP "{BYTES["5"]}"\n{FUNCTION}'
    command = [tool("gcc"), "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    subprocess.run(command, input=source, text=True, check=True)
    trial = long_nops.try_nop(long_nops.REPLACED[0])
    use = long_nops.of_file(Image.open(str(library)))(long_nops.REPLACED[0])
    assert trial
    assert use.safe == (not trial.replaced)


def test_functions_that_end_in_tail_calls_are_traced(lbtrace: Run, tmp_path: Path) -> None:
    """The instruction after the nop is no push there, and a jump leads out of the function."""
    program = tmp_path / "program"
    source = r"""
#include <stdio.h>
#include <unistd.h>
long work(long);
__attribute__((noinline)) long last(long n) { puts("last"); return n; }
__asm__(".text\n.globl work\n.type work, @function\nwork:\n.cfi_startproc\n"
        ".byte 0x0f,0x1f,0x44,0,0\nsub $24, %rsp\nadd $24, %rsp\njmp last\n"
        ".cfi_endproc\n.size work, .-work\n");
int main(void) { if (!fork()) return work(1) != 1; wait(0); return work(2) != 2; }
"""
    command = [shutil.which("gcc"), "-O1", "-w", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=source, text=True, check=True)
    options = ("--func", "work", "--quiet", "--strict", "--format", "jsonl")
    done = lbtrace("attach", *options, "-o", tmp_path / "out.jsonl", "--", program)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    ends = [event["end"] for event in seen if event.get("name") == "work"]
    assert ends == ["returned", "returned"]
