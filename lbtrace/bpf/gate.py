"""The one gate for libbpf's return codes: what fails becomes a `KernelError`."""

from __future__ import annotations

import os
from errno import E2BIG, EACCES, EINVAL, EMFILE, ENFILE, ENOMEM, EPERM, ESRCH
from typing import Any

from lbtrace.bpf import privileges
from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.errors import KernelError, PrivilegeError, option

LOG_LINES = 20
"""How much of libbpf's and the verifier's log an error shows."""


def start_log() -> None:
    """Keep what libbpf and the verifier say from now on, instead of printing it."""
    lib.lbt_log_start()


def check(code: int, action: str) -> int:
    """Pass a result on, or raise for a negative error number.

    ``action`` completes "cannot …". Raises `PrivilegeError` or `KernelError`.
    """
    if code < 0:
        raise failure(-code, action)
    return code


def check_pointer(pointer: Any, action: str) -> Any:
    """Pass a pointer on, or raise for NULL, whose reason libbpf leaves in errno."""
    if pointer == ffi.NULL:
        raise failure(ffi.errno, action)
    return pointer


def failure(number: int, action: str) -> KernelError:
    """Return the error for an errno that libbpf returned, with the end of its log."""
    detail = "" if number in (EMFILE, ENFILE, ESRCH) else _log_tail()
    reason = os.strerror(number) if number < 512 else f"error {number}"
    if number == E2BIG and "processed" in detail:  # BPF_COMPLEXITY_LIMIT_INSNS
        return KernelError(
            "the kernel's verifier gives up on these filters and values: they are too many",
            f"write a shorter {option('where')}, with fewer sums, or fewer {option('arg')}",
            errno=number,
        )
    if number in (EPERM, EACCES):
        missing = privileges.missing()
        if missing:
            return PrivilegeError(
                f"cannot {action}: {' and '.join(missing)} missing",
                privileges.advice(missing),
                errno=number,
            )
        if privileges.perf_forbidden():
            return PrivilegeError(
                f"cannot {action}: CAP_SYS_ADMIN missing, which plain probes demand",
                "run it as root (kernels from 6.6 on need less: see `lbtrace doctor`)",
                errno=number,
            )
    hints = {
        EPERM: "a seccomp filter (as of a container), a security module or lockdown forbids it",
        EINVAL: "see what this kernel can do with: lbtrace doctor",
        EMFILE: "raise the limit of open files (ulimit -n)",
        ENFILE: "raise the limit of open files on this machine: sysctl fs.file-max",
        ESRCH: "the process has ended; trace another one",
        ENOMEM: "free memory, or raise the memlock limit (ulimit -l) on kernels before 5.11",
    }
    hint = hints.get(
        number, "the lines above are the kernel's own words" if detail else hints[EINVAL]
    )
    return KernelError(f"cannot {action}: {reason}", hint, detail=detail, errno=number)


def _log_tail() -> str:
    text: bytes = ffi.string(lib.lbt_log_text())
    lines = text.decode(errors="replace").rstrip().splitlines()
    if len(lines) > LOG_LINES:
        lines = [f"… {len(lines) - LOG_LINES} lines omitted", *lines[-LOG_LINES:]]
    return "\n".join(lines)
