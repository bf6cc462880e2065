"""The system's limits of memory, files and processes: what to say where they leave no room, or
no working directory is left, and which can be raised."""

from __future__ import annotations

from errno import EAGAIN, EMFILE, ENFILE, ENOMEM

from lbtrace.errors import KernelError

MEMORY = ("there is too little memory", "free some, or raise the limit: ulimit -v unlimited")

GONE = ("the working directory was removed", "change to one that is there: cd")

LIMITS = {
    ENOMEM: MEMORY,
    EMFILE: ("too many files are open", "raise the limit (ulimit -n)"),
    ENFILE: ("too many files are open on this machine", "raise it: sysctl fs.file-max"),
    EAGAIN: ("too many processes run", "raise the limit: ulimit -u unlimited"),
}
"""By the number of the error: what is wrong, and what to do."""


def explain(error: BaseException) -> tuple[str, str] | None:
    """Return what is wrong and what to do, None where ``error`` is of another kind."""
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, FileNotFoundError) and error.filename is None:  # getcwd(2) names none
        return GONE
    if isinstance(error, OSError):
        return LIMITS.get(error.errno or 0)
    text = str(error)
    # ld.so and CPython put these in words only.
    if isinstance(error, ImportError) and any(
        words in text for words in ("failed to map", "cannot allocate", "Cannot allocate")
    ):
        return MEMORY
    if isinstance(error, ImportError) and "Too many open files" in text:
        return LIMITS[EMFILE]
    return LIMITS[EAGAIN] if "can't start new thread" in text else None


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files as far as allowed (fs.nr_open with CAP_SYS_RESOURCE,
    else the hard limit; setrlimit(2)).

    Raises `KernelError` where less than ``count`` are possible.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/proc/sys/fs/nr_open") as file:
        most = int(file.read())
    for limit in (max(most, hard), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            break
        except ValueError:  # above the hard limit, without CAP_SYS_RESOURCE
            continue
    if limit < count:
        raise KernelError(
            f"so many probes take {count:,} open files, and this process may have {hard:,}",
            f"choose fewer functions, or raise the limit: ulimit -n {count}",
            errno=EMFILE,
        )
