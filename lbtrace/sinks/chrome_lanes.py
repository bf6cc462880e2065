"""The threads of a Chrome trace: threads, and beside them goroutines and stacks of their own.

Viewers know threads by numbers of 32 bits, and join what has the same one: Perfetto takes a larger
one for the main thread's. A goroutine may have the number of a thread, and a stack is known
by its address. So these have numbers that no thread has, and names that tell what they are.
"""

from __future__ import annotations

from collections.abc import Callable

from lbtrace.model import Plan

GOROUTINES = 1 << 22
"""From here on are the numbers of goroutines: no thread has ``PID_MAX_LIMIT``
(include/linux/threads.h) or more."""

STACKS = 1 << 31
"""From here on are those of stacks, in the order in which they are seen."""


class Lanes:
    """Numbers goroutines and stacks. ``name`` is called with the process, the number and the name
    of each, once."""

    def __init__(self, plan: Plan, name: Callable[[int, int, str], None]) -> None:
        self._name = name
        self._numbers: dict[tuple[int, int], int] = {}
        self._stacks = 0
        self._go = False
        self.grow(plan)

    def grow(self, plan: Plan) -> None:
        """Number those of a plan that has grown from now on."""
        self._go = any(binary.go is not None for binary in plan.binaries)

    def is_goroutine(self, own: int) -> bool:
        """Whether ``own``, with which events say whose they are, is a goroutine's number, and no
        address of a stack."""
        return self._go and own < STACKS - GOROUTINES

    def number(self, pid: int, own: int) -> int:
        """Return the number of a goroutine or stack of the process ``pid``."""
        known = self._numbers.get((pid, own))
        if known is not None:
            return known
        if self.is_goroutine(own):
            number, name = GOROUTINES + own, f"goroutine {own}"
        else:
            number, name = STACKS + self._stacks, f"stack {own:#x}"
            self._stacks += 1
        self._numbers[pid, own] = number
        self._name(pid, number, name)
        return number
