"""Symbols of functions that lie amid an instruction of another function.

A probe there would change that instruction, so such a symbol is no known start of code. Compilers
make none; hand-made files may have some, and symbol tables may be damaged. Unwind information is
believed rather than symbols, and the function around another one rather than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from lbtrace.elf.functions import NEIGHBOURS
from lbtrace.elf.symbols import Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.interface import ExitFinder
from lbtrace.model import Function

LONGEST_INSTRUCTION = 15
"""Bytes of an instruction, at most (Intel SDM 2.3.11)."""

KEPT = 2 * NEIGHBOURS
"""At most this many functions have their instructions kept: several may begin within one."""


class Bodies(Around, Protocol):
    """A binary that gives the code of its functions."""

    def body(self, function: Function) -> Body:
        """Return the code of a function."""

    def described(self, extent: range) -> Body:
        """Return the code that one frame description is for."""

    def code_between(self, address: int, end: int) -> Code:
        """Return what lies from ``address`` to ``end``."""


class Contradictions:
    """Finds the symbols of one binary that contradict others."""

    def __init__(self, table: Symbols, unwind: Unwind, finder: ExitFinder, around: Bodies) -> None:
        self._functions = table.functions
        self._cold = table.cold
        self._unwind = unwind
        self._finder = finder
        self._around = around
        self._judged: dict[int, bool] = {}
        self._reached: dict[tuple[int, int], dict[int, int]] = {}

    def is_amid(self, address: int) -> bool:
        """Return whether ``address``, where a function begins by its symbol, lies amid an
        instruction of another one, or may do so."""
        known = self._judged.get(address)
        if known is None:
            known = self._judged[address] = self._judge(address)
        return known

    def _judge(self, address: int) -> bool:
        described = self._unwind.range_of(address)
        if described is not None and described.start == address:
            return False
        for start, stop, find_body in self._covering(address, described):
            within = self._amid_reached((start, stop), find_body, address)
            if within is None:  # It is not seen to be reached: it may be, by a computed jump.
                code = self._around.code_between(start, address + LONGEST_INSTRUCTION)
                within = not self._finder.leads_to(code, address)
            if within:
                return True
        return False

    def _covering(
        self, address: int, described: range | None
    ) -> Iterator[tuple[int, int, Callable[[], Body]]]:
        """Where the functions begin and end that reach over ``address``, by their symbols or by
        unwind information, which has it ``described``, and what gives their code."""
        around = self._around
        for each in self._functions.covering(address):
            alone = self._unwind.range_of(each.address)
            if alone is not None and alone.start == each.address and alone.stop <= address:
                continue  # its size is contradicted
            yield each.address, each.address + each.size, partial(around.body, each)
        cold = self._cold.extent(address - 1) if self._cold else None
        if cold is not None and address < cold.stop:
            yield cold.start, cold.stop, partial(self._alone, cold)
        # The C library describes what handlers of signals return to from a byte before it on: the
        # unwinder looks a return address up at the byte before it.
        if described is not None and not (
            described.start == address - 1 and self._unwind.is_of_signal(address)
        ):
            yield described.start, described.stop, partial(around.described, described)

    def _alone(self, extent: range) -> Body:
        return Body((self._around.code_between(extent.start, extent.stop),))

    def _amid_reached(
        self, key: tuple[int, int], find_body: Callable[[], Body], address: int
    ) -> bool | None:
        """Whether an instruction that control flow reaches in a body spans over ``address``; None
        where none does, nor begins there. By ``key`` its instructions are kept."""
        reached = self._reached.get(key)
        if reached is None:
            if len(self._reached) >= KEPT:
                del self._reached[next(iter(self._reached))]
            body = find_body()
            reached = self._finder.reached(body.parts, self._around, body.pads, uncertain=True)
            self._reached[key] = reached
        earlier = range(address - LONGEST_INSTRUCTION + 1, address)
        if any(reached.get(each, 0) > address for each in earlier):
            return True
        return False if address in reached else None
