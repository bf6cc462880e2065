"""Values of functions of the kernel, against what bpftrace prints of the same calls by its typed
arguments (fentry). Not part of any target: it wants bpftrace in the guest.

    .venv/bin/python tests/vm/matrix.py --kernels 6.12 --packages bpftrace \
        --select guest/check_kernel_values.py --wheel dist/lbtrace-*_x86_64.whl
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lbtrace import Options, trace
from lbtrace.system.kernel_symbols import find_traceable

pytestmark = pytest.mark.timeout(400)
"""An emulated guest compiles bpftrace's programs for minutes."""

CALLS = int(os.environ.get("LBTRACE_VALUES_CALLS", "300"))
"""Of each function."""

PATIENCE = 20
"""Seconds that bpftrace may take to print the last of them."""

PREPARE = """
import ctypes, os, random, signal, sys, threading, time
draw, calls, me = random.Random(7), int(sys.argv[1]), os.getpid()
os.chdir("/dev/shm"), os.makedirs(f"values-{me}"), os.chdir(f"values-{me}")
file = os.open("the file", os.O_CREAT | os.O_RDWR)
fallocate = ctypes.CDLL(None).fallocate
fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long
text = lambda: "".join(draw.choices("abc xyz", k=draw.randrange(1, 40)))
name = lambda n: f"{n}-{text().strip()}"
def attempt(call, *words):
    try:
        call(*words)
    except OSError:
        pass
names = [name(n) for n in range(calls)]
def make(names):
    for each in names:
        os.close(os.open(each, os.O_CREAT))
"""

RUN = """
sys.stdin.readline()
open("/proc/self/comm", "w").write("values-work")
for n in range(calls):
    WORK
    time.sleep(0.002)  # bpftrace loses events otherwise
os._exit(0)
"""

FILE = ("file->f_path.dentry->d_name.name", "%s")
NAME = ("dentry->d_name.name", "%s")


class Row(NamedTuple):
    """What calls a function (before which something is prepared), and the values to compare: how
    lbtrace and bpftrace are asked, and how bpftrace prints it."""

    function: str
    work: str
    values: tuple[tuple[str, str], ...]
    before: str = ""
    result: bool = True


ROWS = (
    Row(
        "vfs_write",
        "os.pwrite(file, text().encode(), draw.randrange(9999))",
        (FILE, ("count", "%llu"), ("*pos", "%lld"), ("file", "%llu"), ("str(buf, count)", "%s")),
    ),
    Row(
        "rw_verify_area",
        "os.pread(file, draw.randrange(9999), draw.randrange(99999))",
        (("read_write", "%d"), FILE, ("*ppos", "%lld"), ("count", "%llu")),
    ),
    Row(
        "vfs_read",
        "os.pread(file, draw.randrange(9999), draw.randrange(99999))",
        (FILE, ("count", "%llu"), ("*pos", "%lld")),
        "os.pwrite(file, bytes(50000), 0)",
    ),
    Row(
        "shmem_file_llseek",
        "attempt(os.lseek, file, draw.randrange(-(1 << 40), 1 << 40), draw.randrange(5))",
        (FILE, ("offset", "%lld"), ("whence", "%d")),
    ),
    Row(
        "vfs_truncate",
        "os.truncate('the file', draw.randrange(1 << 30))",
        (("path->dentry->d_name.name", "%s"), ("length", "%lld")),
    ),
    Row(
        "vfs_fallocate",
        "fallocate(file, draw.choice((0, 1, 3, 77)), draw.randrange(-9, 9999), draw.randrange(99))",
        (FILE, ("mode", "%d"), ("offset", "%lld"), ("len", "%lld")),
    ),
    Row(
        "vfs_mkdir",
        "os.mkdir(names[n], draw.randrange(0o1000))",
        (NAME, ("mode", "%d")),
        result=False,  # a pointer in newer kernels
    ),
    Row("vfs_unlink", "attempt(os.unlink, names[n])", (NAME,), "make(names)"),
    Row(
        "vfs_rename",
        "os.rename(names[n], f'to {names[n]}')",
        (
            ("rd->old_dentry->d_name.name", "%s"),
            ("rd->new_dentry->d_name.name", "%s"),
            ("rd->flags", "%u"),
        ),
        "make(names)",
    ),
    Row("vfs_symlink", "os.symlink(text(), names[n])", (NAME, ("oldname", "%s"))),
    Row(
        "vfs_setxattr",
        "attempt(os.setxattr, 'the file', f'user.{n % 9}', text().encode(), draw.randrange(3))",
        (NAME, ("name", "%s"), ("size", "%llu"), ("flags", "%d")),
    ),
    Row(
        "do_send_sig_info",
        "draw.choice((os.kill, lambda _, s: signal.pthread_kill(threading.get_ident(), s)))"
        "(me, draw.choice((17, 23, 28)))",
        (("sig", "%d"), ("p->comm", "%s"), ("p->pid", "%d"), ("type", "%d")),
    ),
)

ENUMERATORS = {"PIDTYPE_PID": 0, "PIDTYPE_TGID": 1}
"""Which bpftrace prints as numbers."""


def script(rows: list[Row]) -> str:
    """What bpftrace runs."""
    probes = ['BEGIN { printf("begun\\n") }']
    for function, _, values, _, _ in rows:
        whose = '/comm == "values-work"/'
        format_ = "".join(f"|{how}" for _, how in values)
        asked = ", ".join(theirs(value, how) for value, how in values)
        probes += [
            f'fentry:{function} {whose} {{ printf("> {function}|%d{format_}\\n", pid, {asked}) }}',
            f'fexit:{function} {whose} {{ printf("< {function}|%d|%lld\\n", pid, retval) }}',
        ]
    return "\n".join(probes)


def theirs(value: str, how: str) -> str:
    """An expression of lbtrace as bpftrace writes it."""
    if value == "str(buf, count)":
        return "str(uptr(args.buf), args.count + 1)"  # it writes a NUL in the last one
    value = re.sub(r"^(\*?)(\w+)", r"\1args.\2", value)
    return f"str({value})" if how == "%s" and not value.endswith("comm") else value


def mine(value: object) -> str:
    """A value of lbtrace as bpftrace prints it."""
    text = str(value)
    return str(ENUMERATORS.get(text, int(text, 16) if text.startswith("0x") else text))


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Those whose functions this kernel has."""
    there = find_traceable() or ()
    found = [row for row in ROWS if row.function in there]
    assert len(found) >= 10
    return found


@pytest.fixture(scope="module")
def bpftrace(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file to which it prints."""
    out = tmp_path_factory.mktemp("bpftrace") / "out"
    command = ["bpftrace", "-B", "line", "-e", script(rows)]
    roomy = os.environ | {"BPFTRACE_PERF_RB_PAGES": "4096"}
    with (
        out.open("w") as into,
        subprocess.Popen(
            command, stdout=into, stderr=subprocess.PIPE, text=True, env=roomy
        ) as running,
    ):
        while "begun" not in out.read_text():
            assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(1)
        yield out
        running.terminate()
        assert running.stderr is not None
        assert "ost" not in running.stderr.read()  # events


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_values(rows: list[Row], bpftrace: Path, number: int) -> None:
    if number >= len(rows):
        return
    function, work, values, before, result = rows[number]
    text = "\n".join((PREPARE, before, RUN.replace("WORK", work)))
    command = [sys.executable, "-c", text, str(CALLS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        asked = [f"v{at}={value}" for at, (value, _) in enumerate(values)]
        options = Options(ring_size=16 << 20)
        with trace(kernel=[function], pid=worker.pid, arg=asked, options=options) as traced:
            worker.stdin.write(b"\n")
            worker.stdin.close()
            calls = [*traced.calls()]
            losses = traced.losses()
    # Linux 7 skips probes where it has switched away from who reads a map (docs/kernel.md).
    assert losses.total == losses.nested_miss, losses
    for _ in range(PATIENCE):
        printed = bpftrace.read_text()
        if printed.count(f"< {function}|{worker.pid}|") >= CALLS:
            break
        time.sleep(1)
    entries = re.findall(rf"^> {function}\|{worker.pid}\|(.*)$", printed, re.M)[-CALLS:]
    returns = re.findall(rf"^< {function}\|{worker.pid}\|(.*)$", printed, re.M)[-CALLS:]
    assert len(entries) == len(returns) == CALLS
    pairs = [*zip(entries, returns, strict=True)]
    same = 0
    for call in reversed(calls[-CALLS:]):  # the first ones are perhaps of when it began
        seen = "|".join(mine(each.value) for each in call.args), str(call.result)
        while pairs:
            entry, returned = pairs.pop()
            if seen == (entry, returned if result else seen[1]):
                same += 1
                break
    assert same >= CALLS - losses.nested_miss
    values_seen = same * (len(values) + result)
    print(f"{function}: {values_seen} values as bpftrace prints them, {losses.nested_miss} missed")
