"""Finds control groups of version 2 (Documentation/admin-guide/cgroup-v2.rst of the kernel)."""

from __future__ import annotations

import os

from lbtrace.errors import TargetError, option
from lbtrace.system.procfs import read_lines

MOUNTS = "/proc/self/mountinfo"
DEVICE, DIRECTORY = 2, 4
"""Fields of a line there: proc_pid_mountinfo(5)."""


def find_id(name: str) -> int:
    """Return the number by which the kernel knows a cgroup: that of its directory's inode. Its
    ``name`` is a path, or one below the file system of cgroups. Raises `TargetError`."""
    lines = [line.split() for line in read_lines(MOUNTS)]
    mounts = [line for line in lines if line[line.index("-") + 1] == "cgroup2"]
    devices = {line[DEVICE] for line in mounts}
    if not mounts:
        raise TargetError(
            "no file system of cgroups of version 2 is mounted",
            "as root: mount -t cgroup2 none /sys/fs/cgroup, where that is empty",
        )
    for path in (name, *(f"{line[DIRECTORY]}/{name}" for line in mounts)):
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            continue
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        if device in devices and os.path.isdir(path):
            return status.st_ino
    raise TargetError(
        f"{option('cgroup', name)}: is no cgroup of version 2",
        f"name a directory below {mounts[0][DIRECTORY]}; systemd-cgls shows those of services",
    )
