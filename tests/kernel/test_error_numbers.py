"""``errno`` of functions of the C library, compared with what a program reads there and strace."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.machine import Machine
from tests.debian_packages import binary_package

PROGRAM = """\
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
static char buffer[8];
#define SAY(name, call) do { \\
    long result = (long)(call); \\
    const char *error = strerrorname_np(errno); \\
    fprintf(stderr, "%s %ld %s\\n", #name, result, result == -1 || !result ? error : "-"); \\
} while (0)
static void *elsewhere(void *unused)
{
    SAY(rmdir, rmdir("/"));
    SAY(unlink, unlink("/none"));
    return unused;
}
int main()
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(1)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    SAY(open, open("/missing/file", O_RDONLY));
    SAY(fopen, fopen("/missing", "r"));
    SAY(mkdir, mkdir("/dev", 0777));
    SAY(opendir, opendir("/etc/passwd"));
    SAY(read, read(77, buffer, 4));
    SAY(connect, connect(s, (void *)&address, sizeof address));
    SAY(mmap, mmap(0, 0, PROT_READ, MAP_PRIVATE, -1, 0));
    SAY(shmat, shmat(1 << 30, 0, 0));
    SAY(sbrk, sbrk(1L << 46));
    SAY(signal, signal(999, SIG_IGN));
    signal(SIGUSR1, SIG_IGN);  /* which returns SIG_DFL: null, and no error */
    SAY(getcwd, getcwd(buffer, 1));
    SAY(realpath, realpath("/missing", 0));
    SAY(inet_ntop, inet_ntop(99, &address, buffer, 4));
    SAY(kill, kill(1 << 29, 0));
    SAY(execv, execv("/none", 0));
    pthread_t thread;
    pthread_create(&thread, 0, elsewhere, 0);
    pthread_join(thread, 0);
    errno = ENOTDIR;  /* which this one leaves as it is */
    if (getenv("none")) return 1;
    return lseek(open("/dev/null", O_RDONLY), 0, SEEK_SET);
}
"""

CALLED = (
    "open fopen mkdir opendir read connect mmap shmat sbrk signal getcwd realpath inet_ntop kill"
    " execv rmdir unlink getenv lseek"
)

KERNEL = {"mkdir", "read", "connect", "mmap", "shmat", "kill", "execv", "rmdir", "unlink"}
"""Which of them are one system call."""


def test_names_of_errors(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "fails.c").write_text(PROGRAM)
    program = tmp_path / "fails"
    subprocess.run(
        ["gcc", "-O1", "-w", "-pthread", tmp_path / "fails.c", "-o", program], check=True
    )
    run = subprocess.run([program], check=True, stderr=subprocess.PIPE, text=True)
    said = [tuple(line.split()) for line in run.stderr.splitlines()]
    assert len(said) == 17

    capture = tmp_path / "run.lbt"
    lbtrace("attach", "--func", CALLED.replace(" ", ","), "-o", capture, "--", program)
    tree = lbtrace("export", capture, "--format", "tree").stdout
    shown = re.findall(r" (\w+)\([^\n]*\) = (\S+) (E\w+)$", tree, re.MULTILINE)
    shown += re.findall(r" (fopen) = (\S+) (E\w+)$", tree, re.MULTILINE)
    outer = [each for each in shown if each != ("open", "-1", "ENOENT")]
    told = [(name, error) for name, _, error in said if name != "open"]
    assert sorted((name, error) for name, _, error in outer) == sorted(told)
    assert {result for _, result, _ in shown} == {"-1", "0x0", "0xffffffffffffffff"}

    records = [
        *map(json.loads, lbtrace("export", capture, "--format", "jsonl").stdout.split("\n")[:-1])
    ]
    found = {r["name"]: r["result"] for r in records if r.get("depth") == 0}
    assert found["mkdir"] == {"returned": -1, "errno": "EEXIST"}
    assert found["fopen"] == {"returned": "0x0", "errno": "ENOENT"}
    assert found["lseek"] == 0

    traced = tmp_path / "strace"
    names = ",".join(KERNEL - {"execv"} | {"execve"})
    subprocess.run(
        ["strace", "-f", "-o", traced, "-e", f"trace={names}", program],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    failed = re.findall(r"(\w+)\([^\n]* = -1 (E\w+) ", traced.read_text())
    assert sorted((n.removesuffix("e") if n == "execve" else n, e) for n, e in failed) == sorted(
        (name, error) for name, _, error in outer if name in KERNEL
    )


def test_only_calls_that_failed(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "fails.c").write_text(PROGRAM)
    program = tmp_path / "fails"
    subprocess.run(
        ["gcc", "-O1", "-w", "-pthread", tmp_path / "fails.c", "-o", program], check=True
    )
    done = lbtrace("attach", "--libcalls", "--errors", "--", program)
    shown = re.findall(r" (\w+)\([^\n]*\) = (?:-1|0x0|0xf{16})( E\w+)?$", done.stdout, re.MULTILINE)
    said = [line.split() for line in done.stderr.splitlines() if re.search(" (-1|0) E", line)]
    assert shown.pop() == ("getenv", "")  # null, and yet no error
    assert [(name, error.strip()) for name, error in shown] == [
        (name, error) for name, _, error in said
    ]


MUSL = r"""
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#define SAY(name, call) do { \
    long result = (long)(call); \
    fprintf(stderr, "%s %s %d\n", #name, result ? "-1" : "0x0", errno); \
} while (0)
int main()
{
    SAY(open, open("/missing/file", O_RDONLY));
    SAY(mkdir, mkdir("/dev", 0777));
    SAY(opendir, opendir("/etc/passwd"));
    SAY(fopen, fopen("/missing", "r"));
    return 0;
}
"""


@pytest.mark.slow  # fetches packages
def test_names_of_errors_of_musl(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    out = Path("build/out/packages").resolve()
    library = binary_package("musl", out) / "lib/x86_64-linux-musl/libc.so"
    headers = binary_package("musl-dev", out) / "usr"
    parts = headers / "lib/x86_64-linux-musl"
    (tmp_path / "fails.c").write_text(MUSL)
    program = tmp_path / "fails"
    command = ["gcc", "-nostdinc", "-isystem", headers / "include/x86_64-linux-musl", "-nostdlib"]
    command += ["-o", program, f"-Wl,--dynamic-linker={library}", parts / "crt1.o"]
    subprocess.run([*command, tmp_path / "fails.c", library], check=True)
    done = lbtrace("attach", "--libcalls", "--errors", "--", program)
    shown = re.findall(r" (\w+)\(.*\) = (\S+) (E\w+)$", done.stdout, re.MULTILINE)
    names = {2: "ENOENT", 17: "EEXIST", 20: "ENOTDIR"}
    said = [line.split() for line in done.stderr.splitlines() if " -1 " in line or " 0x0 " in line]
    assert len(said) == 4
    assert shown == [(name, result, names[int(error)]) for name, result, error in said]


@pytest.mark.parametrize(
    ("machine", "compiler"), [("x86_64", "gcc"), ("aarch64", "aarch64-linux-gnu-gcc")]
)
def test_places_from_the_thread_pointer_on(machine: str, compiler: str, tmp_path: Path) -> None:
    places = (0x34, -0x8C, 0x90, -0x40)
    source = "".join(
        f'__attribute__((section(".place{n}"))) void *place{n}(void)'
        f" {{ return (char *)__builtin_thread_pointer() + ({place}); }}\n"
        for n, place in enumerate(places)
    )
    source += '__attribute__((section(".other"))) long other(void)'
    source += " { return *(long *)((char *)__builtin_thread_pointer() + 0x34); }\n"
    (tmp_path / "places.c").write_text(source)
    made = tmp_path / "places.o"
    subprocess.run([compiler, "-O2", "-c", tmp_path / "places.c", "-o", made], check=True)

    def found(section: str) -> int | None:
        code = tmp_path / f"{section}.bin"
        subprocess.run(
            ["objcopy", "-I", "elf64-little", "-O", "binary", "-j", f".{section}", made, code],
            check=True,
        )
        return Machine(machine).linking.thread_place(code.read_bytes())

    assert [found(f"place{n}") for n in range(len(places))] == [*places]
    assert found("other") is None
