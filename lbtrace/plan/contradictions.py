"""Symbols of functions that contradict others: they lie amid an instruction of another function.

A probe there would change that instruction, so such a symbol is no known start of code. Compilers
make none; hand-made files may have some, and symbol tables may be damaged.

Unwind information and what the loader calls (`lbtrace.elf.known_starts`) are believed rather than
symbols. A symbol that is certain to lie says nothing about others; one that only may lie does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import Protocol

from lbtrace.elf.functions import NEIGHBOURS
from lbtrace.elf.known_starts import KnownStarts
from lbtrace.elf.symbols import Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.interface import ExitFinder
from lbtrace.model import Function

LONGEST_INSTRUCTION = 15
"""Bytes of an instruction, at most (Intel SDM 2.3.11)."""

DEPTH = 8
"""Functions, each of which the one before is judged by, that are judged for one."""

NEAR = 4096
"""Bytes after a known start that are judged by it."""

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


class Amid(IntEnum):
    """Whether a symbol lies amid an instruction."""

    NO = 0
    MAYBE = 1
    CERTAIN = 2


class Contradictions:
    """Finds the symbols of one binary that contradict others. ``known_starts`` gives where its code
    begins by other tables."""

    def __init__(
        self,
        table: Symbols,
        unwind: Unwind,
        finder: ExitFinder,
        around: Bodies,
        known_starts: Callable[[], KnownStarts],
    ) -> None:
        self._functions = table.functions
        self._cold = table.cold
        self._unwind = unwind
        self._finder = finder
        self._around = around
        self._known_starts = known_starts
        self._judged: dict[int, Amid] = {}
        self._reached: dict[tuple[int, int], dict[int, int]] = {}

    def is_amid(self, address: int) -> bool:
        """Return whether ``address``, where a function begins by its symbol, lies amid an
        instruction of another one, or may do so."""
        return self._amid(address, DEPTH) > Amid.NO

    def _amid(self, address: int, depth: int) -> Amid:
        known = self._judged.get(address)
        if known is None:
            if not depth:
                return Amid.NO
            known = self._judged[address] = self._judge(address, depth - 1)
        return known

    def _judge(self, address: int, depth: int) -> Amid:
        described = self._unwind.range_of(address)
        if described is not None and described.start == address:
            return Amid.NO
        known = self._by_known_start(address)
        if known is not None:
            return known
        covered, found = False, Amid.NO
        for start, stop, body in self._covering(address, described):
            witness = self._amid(start, depth)
            if witness == Amid.CERTAIN:
                continue
            covered = True
            within = self._amid_reached((start, stop), body, address)
            if within and not witness:
                return Amid.CERTAIN
            if within is None:  # It is not seen to be reached: it may be, by a computed jump.
                code = self._around.code_between(start, address + LONGEST_INSTRUCTION)
                within = not self._finder.leads_to(code, address)
            if within:
                found = Amid.MAYBE
        if covered or found:
            return found
        return Amid.CERTAIN if self._runs_over(address, depth) else Amid.NO

    def _by_known_start(self, address: int) -> Amid | None:
        """What the last known start says; None where that is nothing."""
        starts, sections = self._known_starts()
        if address in starts[bisect_left(starts, address) :][:1]:
            return Amid.NO
        certain, section = _last_before(starts, address), _last_before(sections, address)
        start = max(certain, section)
        if not start < address <= start + NEAR:
            return None
        code = self._around.code_between(start, address + LONGEST_INSTRUCTION)
        if not self._amid_reached((start, address), partial(Body, (code,)), address):
            return None
        return Amid.CERTAIN if start == certain else Amid.MAYBE

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

    def _runs_over(self, address: int, depth: int) -> bool:
        """Whether the code of the function before ``address`` reaches over it: its size may be
        wrong."""
        at = address
        for _ in range(DEPTH):
            before = self._functions.last_extent(at - 1) if at else None
            if before is None or self._ends_apart(before, address):
                return False
            at = before.start
            if self._amid(at, depth) == Amid.CERTAIN:
                continue  # it says nothing: the one before it may
            code = self._around.code_between(at, address + LONGEST_INSTRUCTION)
            if self._finder.leads_to(code, address):
                return False
            return bool(self._amid_reached((at, address), partial(self._longer, code), address))
        return False

    def _alone(self, extent: range) -> Body:
        return Body((self._around.code_between(extent.start, extent.stop),))

    def _longer(self, code: Code) -> Body:
        """The body of the function at the beginning of ``code``, as if it reached to its end."""
        function = self._functions.holding(code.address)
        body = self._around.body(function) if function is not None else Body((code,))
        return Body((code, *body.parts[1:]), body.pads)

    def _ends_apart(self, extent: range, address: int) -> bool:
        """Whether a function ends before ``address``, both by its symbol, which gives its
        ``extent``, and by unwind information."""
        return extent.stop < address and self._unwind.range_of(extent.start) == extent

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


def _last_before(starts: Sequence[int], address: int) -> int:
    """The last of ``starts`` before ``address``; -1 without."""
    at = bisect_left(starts, address)
    return starts[at - 1] if at else -1
