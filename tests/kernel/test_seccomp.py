"""Programs that seccomp confines, and kernels that ask it about uretprobes."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

from lbtrace.targets import seccomp

FAULTY = (((6, 11, 0), (6, 12, 14)), ((6, 13, 0), (6, 13, 3)))
"""From the first kernel to the one that is fixed: CVE-2025-21834."""


def faulty() -> bool:
    release = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", os.uname().release)
    assert release
    version = tuple(int(part or 0) for part in release.groups())
    return platform.machine() == "x86_64" and any(a <= version < b for a, b in FAULTY)


def test_the_kernel_is_known_by_what_it_does() -> None:
    assert seccomp.harms() == faulty()
    assert bool(seccomp.hazard()) == faulty()


def test_a_confined_lbtrace_knows_as_well() -> None:
    """A filter that forbids every system call it does not know, as containers have."""
    done = subprocess.run(
        [sys.executable, "-c", CONFINED], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{faulty()}\n", done.stderr


# A filter that answers ENOSYS to the system call of uretprobes and allows the rest. Layouts:
# struct sock_filter, sock_fprog in include/uapi/linux/filter.h; the number is at offset 0.
CONFINED = """
import ctypes, struct
from lbtrace.targets import seccomp
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 335), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, head, 0, 0) == 0
print(seccomp.harms())
"""
