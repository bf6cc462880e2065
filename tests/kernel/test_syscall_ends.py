"""System calls that do not end as others do, against what programs are written to make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REFUSED = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER(call, how) BPF_JUMP(BPF_JMP | BPF_JEQ, __NR_##call, 0, 1), BPF_STMT(BPF_RET, how)

static void confine(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ANSWER(mkdirat, SECCOMP_RET_ERRNO | 1),
		ANSWER(fchownat, SECCOMP_RET_ERRNO),
		ANSWER(getuid, SECCOMP_RET_TRAP),
		ANSWER(setuid, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(*steps), steps};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void on_trap(int signal) { syscall(__NR_mkdirat, 8, "", 0); }

static void *work(void *nothing)
{
	syscall(__NR_mkdirat, 4, "", 0);
	return NULL;
}

int main(int count, char **words)
{
	char text[8];
	pthread_t thread;

	if (count > 1 && !strcmp(words[1], "executed")) {
		syscall(__NR_mkdirat, 7, "", 0);
		return 0;
	}
	signal(SIGSYS, on_trap);
	confine();
	if (count > 1) { /* traced from here on */
		write(1, "\n", 1);
		read(0, text, 8);
	}
	syscall(__NR_mkdirat, 1, "", 0777);
	syscall(__NR_fchownat, 2, "", 3, 4, 0);
	syscall(__NR_getuid);
	syscall(__NR_mkdirat, 3, "", 0);
	dup(77);
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	if (!fork()) {
		syscall(__NR_mkdirat, 5, "", 0);
		execl(words[0], words[0], "executed", NULL);
	}
	wait(NULL);
	if (!fork())
		syscall(__NR_setuid, 6);
	wait(NULL);
	return 0;
}
"""

NAMED = ("--syscall", "mkdirat,fchownat,getuid,setuid,dup,read")
SHOWN = [
    ("mkdirat", 1, "-EPERM"),
    ("fchownat", 2, 0),
    ("getuid", None),  # it gets a signal, not a result
    ("mkdirat", 8, "-EPERM"),
    ("mkdirat", 3, "-EPERM"),
    ("dup", 77, "-EBADF"),
    ("mkdirat", 4, "-EPERM"),
    ("mkdirat", 5, "-EPERM"),
    ("mkdirat", 7, "-EPERM"),
    ("setuid", 6, None),
]


@pytest.fixture(name="confined")
def _confined(compiled: Callable[[str, list[str], str], Path]) -> Path:
    return compiled("refused_calls", ["gcc", "-x", "c", "-", "-pthread"], REFUSED)


def shown(into: Path) -> list[tuple[object, ...]]:
    """The calls, but those of the loader, with their first arguments and results."""
    rows = [json.loads(line) for line in into.read_text().splitlines()]
    calls = sorted((row for row in rows if row["type"] == "call"), key=lambda row: row["start"])
    return [
        (call["name"], *(each["value"] for each in call["args"][:1]), call["result"])
        for call in calls
        if call["name"] != "read"
    ]


def test_from_the_start(lbtrace: Callable[..., Any], confined: Path, tmp_path: Path) -> None:
    """In threads, children and executed programs, in signal handlers and without a result."""
    lbtrace("attach", *NAMED, "-o", tmp_path / "calls.jsonl", "--", confined)
    assert shown(tmp_path / "calls.jsonl") == SHOWN


def test_with_conditions(lbtrace: Callable[..., Any], confined: Path, tmp_path: Path) -> None:
    into = tmp_path / "calls.jsonl"
    lbtrace("attach", *NAMED, "--where", "retval == -1", "-o", into, "--", confined)
    assert shown(into) == [call for call in SHOWN if call[-1] == "-EPERM"]


def test_what_began_before(
    start: Callable[..., Any], start_lbtrace: Callable[..., Any], confined: Path, tmp_path: Path
) -> None:
    """The call in which a thread was when the trace began was not refused; later ones were."""
    running = start(confined, "waits", stdin=-1)
    running.wait_for("\n", "stdout")
    into = tmp_path / "calls.jsonl"
    tracer = start_lbtrace("attach", *NAMED, "--follow", "--pid", running.pid, "-o", into)
    tracer.wait_for("Ctrl-C ends")
    running.process.stdin.write("go\n")
    running.process.stdin.flush()
    assert tracer.finish()[0] == 0
    assert shown(into) == SHOWN
    assert '"name":"count","value":8}' not in into.read_text()


ENDS = r"""
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int pair[2];

static void on_alarm(int signal)
{
	char text = 'x';

	dup(1002);
	write(pair[1], &text, 1);
}

static void *execute(void *name)
{
	execl(name, name, "executed", NULL);
	return NULL;
}

int main(int count, char **words)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval soon = {{0, 0}, {0, 50000}};
	char text[8];
	pthread_t thread;
	long result;

	if (count > 1) {
		dup(1005);
		syscall(__NR_exit_group, 0);
	}
#ifdef __x86_64__ /* getpid and dup of 32 bits, whose numbers are writev and socket of 64 */
	asm volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
	asm volatile("int $0x80" : "=a"(result) : "a"(41), "b"(1000) : "memory");
#endif
	dup(1001);
	pipe(pair);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	read(pair[0], text, 8);
	if (!vfork()) {
		dup(1003);
		_exit(3);
	}
	dup(1004);
	pthread_create(&thread, NULL, execute, words[0]);
	pthread_join(thread, NULL);
	return 1;
}
"""


def test_ends(
    lbtrace: Callable[..., Any],
    compiled: Callable[[str, list[str], str], Path],
    tmp_path: Path,
) -> None:
    """What is made again, what does not return, what returns twice or in another thread, and calls
    of 32 bits."""
    program = compiled("syscall_ends", ["gcc", "-x", "c", "-", "-pthread"], ENDS)
    into = tmp_path / "calls.jsonl"
    named = "dup,write*,socket,rt_sigreturn,vfork,execve,exit_group"
    lbtrace("attach", "--syscall", named, "-o", into, "--", program)
    seen = shown(into)
    child = next(row[-1] for row in seen if row[0] == "vfork")
    assert isinstance(child, int)
    assert child > 0
    assert [row[:1] + row[-1:] if row[0] in BY_ADDRESS else row for row in seen] == [
        ("execve", 0),
        ("dup", 1001, "-EBADF"),
        ("dup", 1002, "-EBADF"),
        ("write", 4, 1),
        ("rt_sigreturn", None),
        ("vfork", child),
        ("dup", 1003, "-EBADF"),
        ("exit_group", 3, None),
        ("dup", 1004, "-EBADF"),
        ("execve", 0),
        ("dup", 1005, "-EBADF"),
        ("exit_group", 0, None),
    ]
    into = tmp_path / "reads.jsonl"
    lbtrace("attach", "--syscall", "read", "-o", into, "--", program)
    rows = [json.loads(line) for line in into.read_text().splitlines()]
    reads = [row["result"] for row in rows if row["type"] == "call"]
    again = reads.index("-ERESTARTSYS")
    assert reads[again + 1] == {"returned": 1, "buf": "x"}


BY_ADDRESS = ("execve", "rt_sigreturn", "vfork")
"""Calls whose first argument is an address, or that have none."""
