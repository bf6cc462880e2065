"""Structures that system calls are passed and fill, compared with what a program says of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """\
import os, resource, signal, socket, stat, sys, time

def say(*words): print(*words, sep="|", flush=True)

for path in ("/etc/passwd", "/tmp", "/dev/null", sys.argv[0]):
    found = os.stat(path)
    kind = {stat.S_IFREG: "S_IFREG", stat.S_IFDIR: "S_IFDIR", stat.S_IFCHR: "S_IFCHR"}
    mode = f"{kind[stat.S_IFMT(found.st_mode)]}|0{stat.S_IMODE(found.st_mode):o}"
    print(f"newfstatat {path} {{st_mode={mode}, st_size={found.st_size}, … 11 more}}")
print(f"pipe2 {[*os.pipe()]}")
pair = socket.socketpair()
print(f"socketpair {[one.fileno() for one in pair]}")
server = socket.create_server(("127.0.0.1", 0))
print("getsockname 127.0.0.1:%d" % server.getsockname()[1])
client = socket.create_connection(server.getsockname())
taken, address = server.accept()
print("accept4 127.0.0.1:%d" % address[1])
for how in (lambda: os._exit(7), lambda: os.kill(os.getpid(), signal.SIGKILL)):
    if not (child := os.fork()):
        how()
    status = os.waitpid(child, 0)[1]
    said = "exited 7" if os.WIFEXITED(status) else "killed by SIGKILL"
    print(f"wait4 {said}")
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
written = ["RLIM_INFINITY" if n == -1 else n for n in (soft, hard)]
print("prlimit64 {rlim_cur=%s, rlim_max=%s}" % tuple(written))
sys.stdout.flush()
os.execv("/bin/echo", ["echo", "execve", *"abcd", "e f"][: 1 + int(sys.argv[1])])
"""

FILLED = {
    **{"newfstatat": "statbuf", "pipe2": "fildes", "socketpair": "usockvec"},
    **{"getsockname": "usockaddr", "accept4": "upeer_sockaddr", "wait4": "stat_addr"},
    "prlimit64": "old_rlim",
}

Run = Callable[..., Any]


@pytest.fixture
def calls(lbtrace: Run, tmp_path: Path) -> Callable[..., tuple[list[str], list[str]]]:
    def run(number: int) -> tuple[list[str], list[str]]:
        program, capture = tmp_path / "program.py", tmp_path / "run.lbt"
        program.write_text(PROGRAM)
        names = ",".join([*FILLED, "execve"])
        command = ("--", sys.executable, "-S", program, str(number))
        options = ("--syscall", names, "--strings", "200", "-o", capture)
        done = lbtrace("attach", *options, *command)
        assert done.returncode == 0, done.stderr
        tree = lbtrace("export", capture).stdout
        return done.stdout.splitlines(), tree.splitlines()

    return run


def test_as_the_program_says(calls: Callable[..., tuple[list[str], list[str]]]) -> None:
    said, tree = calls(2)
    for line in said[:-1]:
        name, text = line.split(" ", 1)
        path, _, text = text.rpartition(" {st_") if name == "newfstatat" else ("", "", text)
        named, start = (f'filename="{path}"', "{st_") if path else ("", "")
        shown = "\n".join(row for row in tree if f" {name}(" in row and named in row)
        assert f", {FILLED[name]}={start}{text}" in shown
    assert any('argv=["echo", "execve", "a"], envp=' in row for row in tree)


def test_more_arguments_than_are_shown(
    calls: Callable[..., tuple[list[str], list[str]]],
) -> None:
    _, tree = calls(6)
    assert any('argv=["echo", "execve", "a", "b", "c", "d", …], envp=' in row for row in tree)


def test_passed_structures(lbtrace: Run, tmp_path: Path) -> None:
    output = tmp_path / "calls.jsonl"
    chosen = ("--arg", "rqtp->tv_nsec", "--where", "rqtp->tv_nsec > 1000000")
    traced = ("--syscall", "clock_nanosleep", *chosen, "-o", output)
    script = "import time; time.sleep(0.000001); time.sleep(0.0025)"
    lbtrace("attach", *traced, "--", sys.executable, "-c", script)
    rows = map(json.loads, output.read_text().splitlines())
    values = [row["args"][0]["value"] for row in rows if row["type"] == "call"]
    # Python sleeps until a time, from 3.11 on.
    assert len(values) == 1 or sys.version_info >= (3, 11)
    done = lbtrace("attach", "--syscall", "clock_nanosleep", "--", "sleep", "0.01")
    assert "rqtp={tv_sec=0, tv_nsec=10000000}" in done.stdout


def test_buffers_of_a_vector(lbtrace: Run, tmp_path: Path) -> None:
    output = tmp_path / "calls.jsonl"
    chosen = ("--arg", "str(vec->iov_base, vec->iov_len)", "--arg", "str(vec[1].iov_base, 3)")
    traced = ("--syscall", "writev", *chosen, "--where", "vec->iov_len == 6", "-o", output)
    script = "import os; os.writev(1, [b'first ', b'second'])"
    lbtrace("attach", *traced, "--", sys.executable, "-S", "-c", script)
    rows = map(json.loads, output.read_text().splitlines())
    (call,) = (row for row in rows if row["type"] == "call")
    assert [each["value"] for each in call["args"]] == ["first ", "sec"]
    assert call["result"] == 12


ABSENT = """\
import ctypes, mmap, struct
libc = ctypes.CDLL(None)
file = open("pages", "wb+")
file.write(struct.pack("<Q", 1 << 9) + bytes(4088))
file.flush()

def absent():
    page = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_COPY)
    return page, ctypes.addressof(ctypes.c_char.from_buffer(page))

page, address = absent()
libc.syscall(ctypes.c_long(14), 0, ctypes.c_void_p(address), None, ctypes.c_long(8))
other, address = absent()
vector = (ctypes.c_ulong * 2)(address, 8)
libc.writev(2, vector, 1)
libc.writev(99, ctypes.c_void_p(8), 1)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its number of rt_sigprocmask")
def test_what_is_not_in_memory(lbtrace: Run, tmp_path: Path) -> None:
    """It is marked, and shown when the call ends, if it is one value of its bytes."""
    (tmp_path / "absent.py").write_text(ABSENT)
    command = (sys.executable, "-S", tmp_path / "absent.py")
    done = lbtrace("attach", "--syscall", "rt_sigprocmask,writev", "--", *command, cwd=tmp_path)
    assert "set=<fault>, oset=0x0, sigsetsize=8) = 0, set=[SIGUSR1]" in done.stdout
    assert "writev(fd=2, vec=[<fault>], vlen=1) = 8" in done.stdout
    assert "writev(fd=99, vec=[<fault>], vlen=1) = -E" in done.stdout


ONES = """\
import ctypes, os, signal, struct
from socket import *

libc = ctypes.CDLL(None)

def call(name, *arguments):
    getattr(libc, name)(*map(ctypes.c_long, arguments))

kept = []

def at(each):
    kept.append(each)
    return ctypes.addressof(each)

child = os.fork()
if not child:
    signal.pause()
call("wait4", child, at(ctypes.c_int(77)), os.WNOHANG, at(ctypes.create_string_buffer(144)))
os.kill(child, signal.SIGKILL)
os.wait()
one, other = socketpair(AF_UNIX, SOCK_DGRAM)
texts = [ctypes.create_string_buffer(text, 8) for text in (b"first", b"more")]
vectors = [(ctypes.c_ulong * 2)(at(text), 4) for text in texts]
messages = (ctypes.c_ulong * 24)()
for n in (0, 1, 2):
    messages[8 * n + 2 : 8 * n + 4] = [at(vectors[n % 2]), 1]
call("sendmmsg", one.fileno(), at(messages), 3, 0)
call("recvmmsg", other.fileno(), at(messages), 2, 0, 0)
version, sets = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0)), (ctypes.c_uint * 6)()
call("capget", at(version), at(sets))
print(f"capget {sets[0]:#x} {sets[3]:#x}", flush=True)
vector = (ctypes.c_ulong * 2)(at(texts[0]), 4)
there = (ctypes.c_ulong * 2)(at(texts[1]), 4)
call("process_vm_readv", os.getpid(), at(vector), 1, at(there), 1, 0)
null = os.open("/dev/null", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
for number in (null, -1):
    call("fcntl", number, 3)
call("fcntl", null, 1)
path = ctypes.create_string_buffer(b"/absent")
times = (ctypes.c_long * 4)(7, (1 << 30) - 1, 7, (1 << 30) - 2)
call("utimensat", -100, at(path), at(times), 0)
call("mount", at(path), at(path), 0, 0, at(ctypes.create_string_buffer(b"size=1m")))
call("semget", 0, -1, 0o1640)
socket(AF_NETLINK, SOCK_RAW, 0).bind((0, 5))
refused = socket(AF_INET, SOCK_STREAM)
refused.setblocking(False)
with socket(AF_INET, SOCK_STREAM) as closed:
    closed.bind(("127.0.0.1", 0))
    refused.connect_ex(closed.getsockname())
for _ in range(2):
    refused.getsockopt(SOL_SOCKET, SO_ERROR)
call("syscall", 437, -100, at(path), at((ctypes.c_ulong * 3)(0, 0, 8)), 24)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a C library that has all of these")
def test_what_few_calls_take(lbtrace: Run, tmp_path: Path) -> None:
    (tmp_path / "ones.py").write_text(ONES)
    names = (
        "wait4,*mmsg,capget,process_vm_readv,openat2,utimensat,mount,semget,bind,fcntl,getsockopt"
    )
    done = lbtrace("attach", "--syscall", names, "--", sys.executable, "-S", tmp_path / "ones.py")
    said, *_ = (line.split() for line in done.stdout.splitlines() if line.startswith("capget "))
    shown = done.stdout
    waited = [line for line in shown.splitlines() if " wait4(" in line]
    assert waited[0].endswith(" = 0")
    assert waited[1].rpartition(", ")[2] == "stat_addr=killed by SIGKILL"
    first = '{msg_name=0x0, msg_iov=["firs"], msg_controllen=0, … 1 more}'
    assert f'msg=[{first}, {{msg_name=0x0, msg_iov=["more"], … 2 more}}, … 1 more]' in shown
    assert '= 2, msg=[{msg_name=0x0, msg_iov=["firs"], ' in shown
    effective = f"dataptr=[{{effective={said[1]}, permitted="
    assert "header={version=_LINUX_CAPABILITY_VERSION_3, pid=0}" in shown
    assert effective in shown
    assert f"{{effective={said[2]}, " in shown
    assert '= 4, lvec=["more"]' in shown
    assert "cmd=F_GETFL) = O_WRONLY|O_APPEND|O_LARGEFILE\n" in shown
    assert "fcntl(fd=-1, cmd=F_GETFL) = -EBADF\n" in shown
    assert "cmd=F_GETFD) = FD_CLOEXEC\n" in shown
    assert "utimes=[{tv_sec=7, tv_nsec=UTIME_NOW}, {tv_sec=7, tv_nsec=UTIME_OMIT}]" in shown
    assert 'flags=0, data="size=1m") = -E' in shown
    assert "key=IPC_PRIVATE, nsems=-1, semflg=IPC_CREAT|0640) = -EINVAL" in shown
    assert [line.rpartition(" = ")[2] for line in shown.splitlines() if "SO_ERROR" in line] == [
        "0, optval=ECONNREFUSED",
        "0, optval=0",
    ]
    assert "umyaddr=netlink:0 groups 0x5, addrlen=12) = 0" in shown
    assert "how={flags=O_RDONLY, mode=0, resolve=RESOLVE_BENEATH}, size=24) = -E" in shown
