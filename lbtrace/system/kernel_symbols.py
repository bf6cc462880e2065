"""Reads which functions the kernel has: /proc/kallsyms and tracefs
(Documentation/trace/ftrace.rst)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lbtrace.errors import KernelError
from lbtrace.system.lookups import mark_uncertain
from lbtrace.system.procfs import read_text
from lbtrace.system.tracefs import find_root

SYMBOLS = "/proc/kallsyms"
CODE = re.compile(r"^(\S+) [tTwW] (\S+)(?:\t\[(\S+)\])?$", re.M)
TRACEABLE = re.compile(r"^(\S+)(?: \[(\S+)\])?$", re.M)
REFUSED = "debug/kprobes/blacklist"
UNNAMED = re.compile(r"__pfx_|__cfi_|__ftrace_invalid_address__|__initstub__|.*\.cold\b")
"""What compilers and the kernel put there that is no function of it."""


def count_functions() -> Counter[str]:
    """Return how many functions there are of each name; of a module's, ``MODULE:NAME``. Raises
    `KernelError`."""
    return Counter(_named(CODE, _read_symbols()))


def read_code() -> Iterator[tuple[int, str, str]]:
    """Yield the address of each function, 0 for a process that may not know it, its name and its
    module, which is empty of the kernel's own. Raises `KernelError`."""
    for address, name, module in CODE.findall(_read_symbols()):
        if not UNNAMED.match(name):
            yield int(address, 16), name, module


def find_size(name: str) -> int:
    """Return how many bytes there are from a function, ``MODULE:NAME`` of a module's, to what comes
    next, 0 where the kernel does not tell addresses. Raises `KernelError`."""
    module, _, plain = name.rpartition(":")
    code = [*read_code()]
    start = next((at for at, other, of in code if (other, of) == (plain, module)), 0)
    return min((at for at, *_ in code if at > start), default=start) - start if start else 0


def _read_symbols() -> str:
    mark_uncertain()  # modules bring functions, and take them away
    try:
        return read_text(SYMBOLS)
    except OSError as error:
        raise KernelError(
            f"cannot read {SYMBOLS}: {error.strerror}",
            "mount /proc, and use a kernel built with CONFIG_KALLSYMS=y",
            errno=error.errno or 0,
        ) from None


def find_traceable() -> frozenset[str] | None:
    """Return the functions in which the kernel can place probes, called the same way; None where it
    does not tell."""
    try:
        text = read_text(f"{find_root()}/available_filter_functions")
    except (OSError, KernelError):
        return None
    return frozenset(_named(TRACEABLE, text)) - _find_refused()


def _find_refused() -> frozenset[str]:
    """Those that kprobes cannot be in, although ftrace can trace them."""
    try:
        text = read_text(f"/sys/kernel/{REFUSED}")
    except OSError:  # no debugfs
        return frozenset()
    return frozenset(line.split()[-1] for line in text.splitlines() if line)


def _named(layout: re.Pattern[str], text: str) -> list[str]:
    return [
        f"{module}:{name}" if module else name
        for *_, name, module in layout.findall(text)
        if not UNNAMED.match(name)
    ]
