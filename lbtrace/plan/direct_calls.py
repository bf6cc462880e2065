"""Direct calls in a binary, found by what their bytes look like: quick, and maybe some too many."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.machine import Machine
from lbtrace.machine.code import Call

AT_ONCE = 256
"""Calls that are looked at before those of functions that have enough are no longer looked for."""


def find_direct_calls(
    image: Image, machine: Machine, targets: Iterable[int], most: int, near: int = 0
) -> dict[int, list[Call]]:
    """Return what looks like calls of ``targets``, by target: of those that have more than
    ``most``, at least one more; only those at most ``near`` bytes from it, if that is given."""
    found: dict[int, list[Call]] = {target: [] for target in targets}
    if not found:
        return found
    low, high = (min(found) - near, max(found) + near) if near else (0, 1 << 64)
    for section in image.sections:
        start, end = max(section.address, low), min(section.address + section.size, high)
        while section.flags & SHF_EXECINSTR and start < end:
            left = {target for target, calls in found.items() if len(calls) <= most}
            calls = machine.find_calls(image.view(start, end - start), start, left)
            some = [*islice(calls, AT_ONCE)] if left else []
            for call in some:
                if not near or abs(call.address - call.target) <= near:
                    found[call.target].append(call)
            if len(some) < AT_ONCE:
                break
            start = some[-1].after
    return found
