"""Functions that many others call: a probe at their exits would cost each of these calls time."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.machine import Machine

MOST_CALLS = 8
"""Direct calls of a function that is not busy. Jumps to it do not count."""

NEARBY = 2 << 20
"""Bytes around a function in which calls of it are looked for, which takes 2 ms."""

AT_ONCE = 256
"""Calls that are counted before those of busy functions are no longer looked for."""


class BusyFunctions:
    """The functions of one binary with more than `MOST_CALLS` calls nearby."""

    def __init__(self, image: Image, machine: Machine) -> None:
        self._image = image
        self._machine = machine
        self._calls: dict[int, int] = {}

    def has(self, address: int) -> bool:
        """Return whether the function at ``address`` is one."""
        self.look_at({address})
        return self._calls[address] > MOST_CALLS

    def look_at(self, addresses: Set[int]) -> None:
        """Look at several functions at once."""
        left = addresses - self._calls.keys()
        self._calls.update(dict.fromkeys(left, 0))
        low, high = min(left, default=0) - NEARBY, max(left, default=0) + NEARBY
        for section in self._image.sections if left else ():
            start, end = max(section.address, low), min(section.address + section.size, high)
            if section.flags & SHF_EXECINSTR and start < end:
                self._count(start, end, left)

    def _count(self, start: int, end: int, left: Set[int]) -> None:
        """Count the calls of functions from one address to another until all of them are busy."""
        while left := {target for target in left if self._calls[target] <= MOST_CALLS}:
            calls = self._machine.find_calls(self._image.view(start, end - start), start, left)
            found = [*islice(calls, AT_ONCE)]
            for call in found:
                self._calls[call.target] += abs(call.address - call.target) <= NEARBY
            if len(found) < AT_ONCE:
                return
            start = found[-1].after
