"""What links to functions of the kernel say of returns that it did not hook."""

from __future__ import annotations

from typing import Any

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.backup_programs import CALLS


class KernelLinks:
    """Those that are attached, by the program."""

    def __init__(self) -> None:
        self._links: dict[str, list[int]] = {}
        self._before = 0

    def add(self, program: str, link: Any) -> Any:
        """Return a new link of a program, having noted it."""
        self._links.setdefault(program, []).append(lib.bpf_link__fd(link))
        return link

    def unhooked(self) -> int:
        """Return how many returns the kernel did not hook, as more calls were open than it keeps
        (Linux 6.8 and later say so)."""
        entries, returns = (
            sum(max(0, int(lib.lbt_link_misses(fd))) for fd in self._links.get(name, ()))
            for name in CALLS
        )
        return self._before + max(0, returns - entries)

    def forget(self) -> None:
        """Ask links no longer, as they are about to be closed, and keep what they say."""
        self._before = self.unhooked()
        self._links.clear()
