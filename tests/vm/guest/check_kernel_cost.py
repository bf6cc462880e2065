"""What a traced call of a function of the kernel costs the thread that makes it, beside a pair of
programs that do nothing. Prints figures, asserts none. Not part of any target:

    .venv/bin/python tests/vm/matrix.py --kernels "6.12 newest" --count-instructions \
        --select guest/check_kernel_cost.py --wheel dist/lbtrace-*_x86_64.whl
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from struct import pack
from typing import Any

import pytest
from lbtrace.bpf._libbpf import lib

from lbtrace import Options, trace
from lbtrace.bpf.attach import kernel_multi

WORK = """
import os, sys, time
file = os.open("/dev/null", os.O_WRONLY)
best = 1 << 60
write, clock = os.write, time.thread_time_ns
print(flush=True)
sys.stdin.readline()
for chunk in range(20):
    begun = clock()
    for n in range(300):
        write(file, b"x")
    best = min(best, clock() - begun)
print(best / 300)
"""
"""The least that a call took, of any 300 in a row, in ns of the thread's own time."""

FUNCTION = "vfs_write"

BPF_PROG_LOAD, BPF_LINK_CREATE = 5, 28
BPF_PROG_TYPE_KPROBE = 2
NOTHING = pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
"""r0 = 0; exit"""

SESSION = lib.BPF_TRACE_UPROBE_SESSION - 1
"""BPF_TRACE_KPROBE_SESSION of include/uapi/linux/bpf.h"""


def bpf(command: int, attributes: bytes) -> int:
    """The system call; raises `OSError`."""
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    call = ctypes.CDLL(None, use_errno=True).syscall
    result = call(number, command, ctypes.create_string_buffer(attributes, 128), 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


@contextmanager
def empty(kind: int, at_return: bool) -> Iterator[None]:
    """A program that does nothing at the entry or return of the function, in one link."""
    code = ctypes.create_string_buffer(NOTHING)
    license_ = ctypes.create_string_buffer(b"GPL")
    program = pack("<IIQQIIQII", BPF_PROG_TYPE_KPROBE, 2, ctypes.addressof(code),
                   ctypes.addressof(license_), 0, 0, 0, 0, 0)  # fmt: skip
    program += bytes(16) + pack("<II", 0, kind)
    loaded = bpf(BPF_PROG_LOAD, program)
    name = ctypes.create_string_buffer(FUNCTION.encode())
    names = (ctypes.c_uint64 * 1)(ctypes.addressof(name))
    wanted = pack("<IIII", loaded, 0, kind, 0)
    wanted += pack("<IIQQQ", at_return, 1, ctypes.addressof(names), 0, 0)
    link = bpf(BPF_LINK_CREATE, wanted)
    try:
        yield
    finally:
        os.close(link)
        os.close(loaded)


@contextmanager
def empty_pair() -> Iterator[None]:
    with ExitStack() as held:
        held.enter_context(empty(lib.BPF_TRACE_KPROBE_MULTI, False))
        held.enter_context(empty(lib.BPF_TRACE_KPROBE_MULTI, True))
        yield


@contextmanager
def traced(pid: int, **chosen: Any) -> Iterator[None]:
    """lbtrace, which reads what it traces meanwhile."""
    with trace(kernel=[FUNCTION], pid=pid, options=Options(ring_size=64 << 20), **chosen) as here:
        reader = threading.Thread(target=lambda: [None for _ in here.calls()])
        reader.start()
        yield
        reader.join()
        assert not here.losses().total


def cost(around: Callable[[int], AbstractContextManager[None]]) -> float:
    """ns of a call, made by a process whose pid ``around`` is given."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WORK], **pipes) as work:  # type: ignore[call-overload]
        assert work.stdout.readline()
        with around(work.pid):
            work.stdin.write("\n")
            work.stdin.flush()
            return float(work.stdout.readline())


@contextmanager
def other(_: int) -> Iterator[None]:
    """lbtrace traces another process."""
    with subprocess.Popen(["sleep", "infinity"]) as sleeps:
        try:
            with trace(kernel=[FUNCTION], pid=sleeps.pid):
                yield
        finally:
            sleeps.kill()


def test_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernel_multi.works()
    ways: dict[str, Callable[[int], AbstractContextManager[None]]] = {
        "untraced": lambda pid: nullcontext(),
        "an empty pair": lambda pid: empty_pair(),
        "an empty session": lambda pid: empty(SESSION, False),
        "lbtrace, of another process": other,
        "lbtrace": lambda pid: traced(pid, args=0),
        "lbtrace, with arguments": traced,
        "lbtrace, a string of a member": lambda pid: traced(
            pid, arg=["file->f_path.dentry->d_name.name"]
        ),
    }
    took = {}
    for way, around in ways.items():
        try:
            took[way] = min(cost(around) for _ in range(2))
        except OSError as error:
            took[way] = float("nan")
            print(f"{way}: {error}")
    nothing = took.pop("untraced")
    pair = took["an empty pair"] - nothing
    with capsys.disabled():
        print(f"\n{FUNCTION}, ns a call: {nothing:,.0f} untraced; what is added:")
        for way, all_ in took.items():
            print(f"{all_ - nothing:8,.0f} {(all_ - nothing) / pair:6.2f} x  {way}")
