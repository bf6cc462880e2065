"""The exceptions lbtrace raises on purpose.

    LbtraceError                 status 1
    ├── UsageError               status 2   the request contradicts itself
    │   └── NoMatchError                    a pattern selects no function
    ├── BinaryError                         the file cannot be traced
    ├── TargetError                         the process or command cannot be traced
    ├── KernelError                         the kernel refused something
    │   └── PrivilegeError                  privileges are missing
    ├── CaptureError                        a capture cannot be read
    └── OutputError                         the output cannot be written

Every error carries one line that says what is wrong and one that says what
to do about it. Only ``lbtrace.commands.main`` prints them.
"""

from __future__ import annotations


class LbtraceError(Exception):
    """Base of all errors of lbtrace.

    ``message`` says what is wrong, ``hint`` what to do; both are one line.
    ``detail`` holds further lines, such as the end of a verifier log.
    ``status`` is the exit status of a command that ends with this error.
    """

    status = 1

    def __init__(self, message: str, hint: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


class UsageError(LbtraceError):
    """The request itself is wrong, whatever the machine."""

    status = 2


class NoMatchError(UsageError):
    """A pattern selects no function of the binary."""


class BinaryError(LbtraceError):
    """The file is missing, is no ELF file, or is one that cannot be traced."""


class TargetError(LbtraceError):
    """The process is gone, or the command cannot be started."""


class KernelError(LbtraceError):
    """The kernel, or libbpf on its behalf, refused an operation.

    ``errno`` is the positive error number, 0 where there is none.
    """

    def __init__(self, message: str, hint: str, *, detail: str = "", errno: int = 0) -> None:
        super().__init__(message, hint, detail=detail)
        self.errno = errno


class PrivilegeError(KernelError):
    """CAP_BPF, CAP_PERFMON or what stands in their place is missing."""


class CaptureError(LbtraceError):
    """The file is no capture, or is of a version this lbtrace cannot read."""


class OutputError(LbtraceError):
    """The output exists already, cannot be created, or the disk is full."""
