"""Code that a symbol without a type names, as hand-written assembly often has it.

Such a symbol may as well name data among the code. It counts as a start of code where something
calls it: then its instructions are known as those of functions are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.machine import Machine
from lbtrace.machine.function_code import Body
from lbtrace.machine.sites import ProbeSites
from lbtrace.plan.code_context import Surroundings

FARTHEST = 1 << 16
"""Bytes from such a symbol to the instruction that is asked for, at most."""


class _Labelled(Surroundings):
    """The code and data of an image in which some stretches of code are known besides."""

    def __init__(
        self, image: Image, table: Symbols, machine: Machine, stretches: Sequence[range]
    ) -> None:
        super().__init__(image, table, machine)
        self._stretches = stretches

    def holding(self, address: int) -> Body | None:
        """Return the code around ``address`` in one of the stretches."""
        found = next((each for each in self._stretches if address in each), None)
        if found is None:
            return None
        body = self.described(found)
        return None if any(map(self._is_patched, body.parts)) else body


def sites_at_labels(
    image: Image, table: Symbols, stubs: Mapping[int, Stub], addresses: Iterable[int]
) -> ProbeSites | None:
    """Return what hands out sites in the code that labels name and that holds ``addresses``; None
    where nothing calls any."""
    machine = Machine(image.machine)
    labels = {label for at in addresses if (label := label_before(table, at)) is not None}
    called = labels and _called(image, machine, stubs, labels)
    if not called:
        return None
    stretches = [range(label, _end(image, table, label)) for label in sorted(called)]
    return ProbeSites(machine, _Labelled(image, table, machine, stretches))


def label_before(table: Symbols, address: int) -> int | None:
    """Return the last symbol in code up to ``address``, if it is near and neither that of a
    function nor of a part of one."""
    start = start_before(table, address)
    if start is None:
        return None
    functions = (table.functions.last_extent(start), table.cold.last_extent(start))
    typed = any(extent is not None and extent.start == start for extent in functions)
    return None if typed else start


def start_before(table: Symbols, address: int) -> int | None:
    """Return the last symbol in code up to ``address``, if it is near."""
    index = bisect_right(table.starts, address)
    start = table.starts[index - 1] if index else None
    return start if start is not None and address - start < FARTHEST else None


def _called(
    image: Image, machine: Machine, stubs: Mapping[int, Stub], labels: set[int]
) -> set[int]:
    """Those of ``labels`` that code of the file calls, itself or through a stub."""
    found = labels & {stub.address for stub in stubs.values()}
    for section in image.sections:
        if section.flags & SHF_EXECINSTR and found != labels:
            code = image.view(section.address, section.size)
            rest = labels - found
            found |= {to for to in rest if any(machine.find_calls(code, section.address, (to,)))}
    return found


def _end(image: Image, table: Symbols, label: int) -> int:
    """Where the code ends that a label names: at the next symbol, or with its section."""
    ends = (
        section.address + section.size
        for section in image.sections
        if section.flags & SHF_EXECINSTR
        and section.address <= label < section.address + section.size
    )
    return min(table.following(label), next(ends, label))
