"""Reads what the kernel says of its tracepoints: tracefs (Documentation/trace/events.rst)."""

from __future__ import annotations

import errno
import os
from functools import cache

from lbtrace.errors import KernelError, PrivilegeError
from lbtrace.system.lookups import mark_uncertain
from lbtrace.system.procfs import read_text

MOUNTED = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")

FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
"""Numbers of system calls, everywhere alike (Linux 5.2)."""
CLOEXEC, CREATE = 1, 6
"""FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC and FSCONFIG_CMD_CREATE in include/uapi/linux/mount.h."""


def list_events() -> list[str]:
    """Return all tracepoints, as ``CATEGORY:NAME``. Raises `KernelError`."""
    return _read("available_events").split()


def read_format(event: str) -> str:
    """Return what the record of a tracepoint is made of, and how it is printed. Raises
    `KernelError`."""
    return _read(f"events/{event.replace(':', '/', 1)}/format")


def find_root() -> str:
    """Return where tracefs is. Raises `KernelError` where it cannot be had."""
    for path in MOUNTED:
        try:
            os.stat(f"{path}/available_events")
            return path
        except PermissionError:
            raise _forbidden() from None
        except OSError:
            continue
    return _mount()


def _read(path: str) -> str:
    mark_uncertain()  # modules bring tracepoints, and take them away
    try:
        return read_text(f"{find_root()}/{path}")
    except PermissionError:
        raise _forbidden() from None
    except OSError as error:
        raise KernelError(
            f"cannot read {path} of tracefs: {error.strerror}",
            "try it again",
            errno=error.errno or 0,
        ) from None


@cache
def _mount() -> str:
    """Mount tracefs where nobody else sees it, until this process ends."""
    import ctypes  # imported here because it is slow and seldom needed

    call = ctypes.CDLL(None, use_errno=True).syscall
    opened = call(FSOPEN, b"tracefs", CLOEXEC)
    if opened >= 0:
        created = call(FSCONFIG, opened, CREATE, None, None, 0)
        mounted = -1 if created else call(FSMOUNT, opened, CLOEXEC, 0)
        number = ctypes.get_errno()
        os.close(opened)
        if mounted >= 0:
            return f"/proc/self/fd/{mounted}"
    else:
        number = ctypes.get_errno()
    if number in (errno.EPERM, errno.EACCES):
        raise PrivilegeError(
            "lbtrace may not mount tracefs, which describes tracepoints: that needs CAP_SYS_ADMIN",
            "run it as root",
        )
    raise KernelError(
        f"tracefs, which describes tracepoints, is not mounted: {os.strerror(number)}",
        "as root: mount -t tracefs tracefs /sys/kernel/tracing",
        errno=number,
    )


def _forbidden() -> PrivilegeError:
    return PrivilegeError(
        "only root may read tracefs, which describes tracepoints",
        "run it as root",
    )
