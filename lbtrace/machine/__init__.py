"""Processors: where a probe may be placed and what it costs, and what code does.

No type and no calling convention is known here. `MACHINES` has a row for each processor: a
package whose modules have the same names in all of them (`lbtrace.machine.interface`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from lbtrace.machine.code import ArgumentStores, Call, Code, Read
    from lbtrace.machine.interface import (
        ExitFinder,
        GoSitePlanner,
        JumpPatterns,
        Kernel,
        Linking,
        SitePlanner,
    )


class Processor(Struct, frozen=True):
    """A row of `MACHINES`: the ``name`` that ``uname -m`` gives, which is that of its package
    here, and its ``number`` in ELF files (``e_machine``)."""

    name: str
    number: int


MACHINES = (
    Processor("x86_64", 62),
    Processor("aarch64", 183),
)
"""The processors that lbtrace knows."""


@cache
def _module(machine: str, name: str) -> Any:
    """A module of a machine's package; they are asked for a function at a time."""
    return import_module(f"lbtrace.machine.{machine}.{name}")


@cache
def _optional(machine: str, name: str, function: str) -> Callable[..., Any] | None:
    """A function of a module of `lbtrace.machine.interface.OPTIONAL`; None where it lacks."""
    path = f"lbtrace.machine.{machine}.{name}"
    try:
        found: Callable[..., Any] = getattr(import_module(path), function)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return None
    return found


class Machine:
    """A processor. The modules of its package are imported when they are first used: those for
    x86-64 import iced-x86.

    ``name`` is that of its row in `MACHINES`. ``registers`` are the names of those that can be
    read, and a call takes ``return_address_size`` bytes of the stack for the return address.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        registers = self._module("registers")
        self.registers: tuple[str, ...] = registers.REGISTERS
        self.return_address_size: int = registers.RETURN_ADDRESS_SIZE

    def _module(self, name: str) -> Any:
        return _module(self.name, name)

    def _ask(self, module: str, function: str, unknown: Any, *about: Any, **how: Any) -> Any:
        """What a module of `lbtrace.machine.interface.OPTIONAL` answers; ``unknown`` without it."""
        asked = _optional(self.name, module, function)
        return unknown if asked is None else asked(*about, **how)

    @property
    def kernel(self) -> Kernel:
        """What Linux has of it."""
        module: Kernel = self._module("kernel")
        return module

    @property
    def linking(self) -> Linking:
        """What linkers and the dynamic loader do on it."""
        module: Linking = self._module("linking")
        return module

    @property
    def jump_patterns(self) -> JumpPatterns:
        """What calls and jumps look like."""
        module: JumpPatterns = self._module("jump_patterns")
        return module

    def site_planner(self) -> SitePlanner:
        """Return the planner of probe sites."""
        planner: SitePlanner = self._module("probe_sites").Planner()
        return planner

    def go_site_planner(self, morestack: Collection[int]) -> GoSitePlanner:
        """Return the planner of probe sites in Go's code; ``morestack`` are the addresses of the
        functions ``runtime.morestack*``."""
        planner: GoSitePlanner = self._module("go_probe_sites").GoPlanner(morestack)
        return planner

    def exit_finder(self) -> ExitFinder:
        """Return the finder of exits."""
        finder: ExitFinder = self._module("exits").Finder()
        return finder

    def find_stack_exchanges(self, code: memoryview, address: int) -> Iterator[int]:
        """Yield where ``code`` at ``address`` seems to move the stack pointer by the value of a
        register, as coroutines do that exchange what is on one stack."""
        yield from self._ask("stack_exchanges", "stack_exchanges", (), code, address)

    def find_first_writes(self, code: Code) -> frozenset[str]:
        """Return the registers that the instructions of ``code`` up to its first call, jump or
        return write, in whole or in part."""
        found: frozenset[str] = self._module("first_writes").first_writes(code)
        return found

    def find_mark_size(self, code: bytes) -> int:
        """Return how many bytes a function with this ``code`` begins with that are a jump over
        data, which decoded as code would be taken for other instructions."""
        return int(self._ask("type_marks", "mark_size", 0, code))

    def find_frame_size(self, code: Code) -> int | None:
        """Return how many bytes the stack pointer is below the canonical frame address (CFA) after
        the prologue of the function that begins with ``code``; None where that is not certain."""
        found: int | None = self._ask("prologues", "frame_size", None, code)
        return found

    def find_argument_stores(self, code: Code) -> ArgumentStores | None:
        """Return what an unoptimised function that begins with ``code`` stores first in its frame,
        before it branches or calls another; None where that is not known of any function."""
        found: ArgumentStores | None
        found = self._ask("argument_stores", "argument_stores", None, code)
        return found

    def reads_at_entry(self, code: Code, registers: Collection[str]) -> bool:
        """Return whether a function with this ``code`` certainly reads each of these ``registers``,
        in whole or in part, as its caller filled them."""
        found = self.find_entry_reads(code, registers)
        return found is None or found.issuperset(registers)

    def find_entry_reads(
        self, code: Code, registers: Collection[str], read: Read | None = None
    ) -> frozenset[str] | None:
        """Return those of ``registers`` that a function with this ``code`` certainly reads so, or
        passes on to one that does: what it calls or jumps to is not followed unless ``read`` reads
        it. None where that is not known of any function."""
        found: frozenset[str] | None
        found = self._ask("entry_reads", "entry_reads", None, code, registers, read)
        return found

    def may_return_first(self, code: Code) -> bool:
        """Return whether a function with this ``code`` may return what its first argument was, as
        one does that returns an object in memory."""
        return bool(self._ask("returned_first", "may_return_first", True, code))

    def find_caller_reads(
        self, code: Code, *, every: bool = False
    ) -> frozenset[tuple[int, int]] | None:
        """Return what a function with this ``code`` certainly reads of its caller's frame, or
        refers to: from which to which distance from the stack pointer at entry. None where that is
        not known of any function, or of this one where ``every`` read is asked for."""
        found: frozenset[tuple[int, int]] | None
        found = self._ask("caller_reads", "caller_reads", None, code, every=every)
        return found

    def find_result_writes(self, code: Code) -> frozenset[str]:
        """Return registers that a function with this ``code`` certainly writes for its callers:
        before a return, and does not read any more."""
        found: frozenset[str]
        found = self._ask("result_writes", "result_writes", frozenset(), code)
        return found

    def find_result_widths(self, code: Code) -> dict[str, int]:
        """Return how many bytes of registers a function with this ``code`` writes last before each
        return, at most, where it is seen: above these is 0."""
        found: dict[str, int] = self._ask("result_writes", "result_widths", {}, code)
        return found

    def find_writes(self, code: bytes, address: int) -> frozenset[str]:
        """Return the integer and vector registers that the instructions of ``code`` at ``address``
        write, in whole or in part."""
        found: frozenset[str] = self._module("first_writes").all_writes(code, address)
        return found

    def reads_all(self, code: bytes, registers: Collection[str]) -> bool:
        """Return whether the instructions of ``code`` read each of these ``registers``, in whole or
        in part."""
        return bool(self._ask("register_reads", "reads_all", True, code, registers))

    def find_calls(
        self, code: memoryview, address: int, targets: Collection[int]
    ) -> Iterator[Call]:
        """Yield what looks like calls of ``targets`` in ``code`` at ``address``."""
        yield from self._module("call_sites").calls(code, address, targets)
