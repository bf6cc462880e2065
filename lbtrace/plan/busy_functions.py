"""Functions that many others call: a probe at their exits would cost each of these calls time."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.machine import Machine
from lbtrace.model import Function

MOST_CALLS = 8
"""Direct calls of a function that is not busy. Jumps to it do not count."""

NEARBY = 2 << 20
"""Bytes around a function in which calls of it are looked for, which takes 2 ms."""

AT_ONCE = 256
"""Calls that are counted before those of busy functions are no longer looked for."""


SHORT = 256
"""Bytes of code in which a function calls the kernel, if that is what it is for."""


class BusyFunctions:
    """The functions of one binary with more than `MOST_CALLS` calls nearby."""

    def __init__(self, image: Image, machine: Machine) -> None:
        self._image = image
        self._machine = machine
        self._calls: dict[int, int] = {}

    def has(self, function: Function) -> bool:
        """Return whether ``function`` is one. None is that calls the kernel, which takes longer."""
        self.look_at({function.address})
        if self._calls[function.address] <= MOST_CALLS:
            return False
        code = self._image.view(function.address, min(function.size, SHORT))
        return self._machine.kernel.SYSTEM_CALL not in bytes(code or b"")

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
