"""Names addresses in the kernel, as /proc/kallsyms does."""

from __future__ import annotations

from bisect import bisect_right

from lbtrace.model import Frame
from lbtrace.model.events import KERNEL_FILE
from lbtrace.system.kernel_symbols import read_code


class KernelNames:
    """The functions of the kernel, read when a frame is asked for that those known do not hold."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._names: list[tuple[str, str]] = []

    def name(self, address: int, *, returns: bool) -> Frame:
        """Return the frame at an address, to which a call ``returns``; of 0, that the kernel told
        no stack. Without a name where the kernel tells this process no addresses
        (kernel.kptr_restrict, CAP_SYSLOG)."""
        if not self._starts and address:
            self._read()
        at = bisect_right(self._starts, address - returns) - 1
        if at < 0 or not address:
            return Frame("", address, KERNEL_FILE)
        name, module = self._names[at]
        return Frame(name, address - self._starts[at], f"[{module}]" if module else KERNEL_FILE)

    def _read(self) -> None:
        """Of several names of a place the first one is the kernel's own choice."""
        first: dict[int, tuple[str, str]] = {}
        for start, name, module in read_code():
            first.setdefault(start, (name, module))
        first.pop(0, None)  # all are 0 for a process that may not know
        self._starts = sorted(first)
        self._names = [first[start] for start in self._starts]
