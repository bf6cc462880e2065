"""Functions that many others call: a probe at their exits would cost each of these calls time."""

from __future__ import annotations

from collections.abc import Set

from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.model import Function
from lbtrace.plan.direct_calls import find_direct_calls

MOST_CALLS = 8
"""Direct calls of a function that is not busy. Jumps to it do not count."""

NEARBY = 2 << 20
"""Bytes around a function in which calls of it are looked for, which takes 2 ms."""

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
        found = find_direct_calls(self._image, self._machine, left, MOST_CALLS, NEARBY)
        self._calls.update({target: len(calls) for target, calls in found.items()})
