"""Calling conventions: where the parameters and results of functions lie.

`CONVENTIONS` has a row for each. What debug information, or the runtime of a language, says of a
function (`lbtrace.model.ConventionHints`) selects one of them here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi.locations import UNKNOWN, Location, lose_unless_named
from lbtrace.model import ConventionHints, Formal, Prototype

OF_C = frozenset({0, 1, 2, 3, 4, 5, 0xC9, 0xCA})
"""``DW_AT_calling_convention`` of functions that pass values as C does: none, DW_CC_normal to
DW_CC_pass_by_value (DWARF 5, section 7.15), and of LLVM's (``Dwarf.def``) PreserveMost and
PreserveAll, which differ in the registers that they leave alone. From version 16 on LLVM says
DW_CC_nocall (3) where it changed what is passed (D127351)."""


class Locations(Struct, frozen=True):
    """Where each parameter lies at entry, and the result at return.

    ``contradicted`` says that debug information has a parameter where this convention never has
    it. ``returned`` is what the result is, where a convention makes one of several.
    """

    parameters: tuple[Location, ...]
    result: Location
    contradicted: bool = False
    returned: Formal | None = None


class CallingConvention(Protocol):
    """What the module of a row of `CONVENTIONS` offers, or the object in it."""

    @property
    def PASSING(self) -> Collection[int]:
        """The registers, by their DWARF numbers, in which parameters may lie at entry. LLVM may
        name another for the whole of a function that fills it first."""

    def places(self, prototype: Prototype) -> Locations:
        """Return where the parameters and the result of ``prototype`` lie."""


class Convention(Struct, frozen=True):
    """A row of `CONVENTIONS`: how the functions of a ``machine`` are called for which it is
    selected. Its ``module`` is imported then; a name after a colon is an object in it.

    It is that of functions with one of the ``codes`` in ``DW_AT_calling_convention``; of the
    ``languages`` if not of any; of the ``runtime`` that says so by its own means. ``x87`` says
    that a long double is one of the x87.
    """

    name: str
    machine: str
    module: str
    codes: frozenset[int] = OF_C
    languages: frozenset[str] = frozenset()
    runtime: str = ""
    x87: bool = False

    def takes(self, hints: ConventionHints) -> bool:
        """Return whether a function of which the ``hints`` are known may be called so."""
        marked = hints.code in self.codes
        spoken = not self.languages or hints.language in self.languages
        return marked and spoken and hints.runtime == self.runtime

    def load(self) -> CallingConvention:
        """Return what knows it."""
        module, _, name = self.module.partition(":")
        found = import_module(module)
        return cast("CallingConvention", getattr(found, name) if name else found)


NOT_RUST = frozenset({"", "c", "c++"})
RUST = frozenset({"rust"})

SYSV, AAPCS = OF_C | {0xC2}, OF_C | {0xC3, 0xC4}
"""With LLVM's X86_64SysV; AAPCS and AAPCS_VFP."""

CONVENTIONS = (
    Convention(
        "sysv_x86_64", "x86_64", "lbtrace.abi.sysv_x86_64", SYSV, languages=NOT_RUST, x87=True
    ),
    Convention("rust", "x86_64", "lbtrace.abi.sysv_x86_64", SYSV, languages=RUST),
    Convention("go_registers", "x86_64", "lbtrace.abi.go:REGISTERS_X86_64", runtime="go registers"),
    Convention("go_stack", "x86_64", "lbtrace.abi.go:STACK_X86_64", runtime="go stack"),
    Convention("aapcs64", "aarch64", "lbtrace.abi.aapcs64", AAPCS, languages=NOT_RUST),
    Convention("rust", "aarch64", "lbtrace.abi.aapcs64", AAPCS, languages=RUST),
    Convention(
        "go_registers", "aarch64", "lbtrace.abi.go:REGISTERS_AARCH64", runtime="go registers"
    ),
    Convention("go_stack", "aarch64", "lbtrace.abi.go:STACK_AARCH64", runtime="go stack"),
)
"""Of those of a machine that take a function, the first is selected that debug information does
not contradict. The first of all is that of C, by which functions are called of which nothing is
known. (Rust's has the same module: what `lbtrace.dwarf.rust_layout` makes of a value travels as in
C.)"""


def locate_values(machine: str, prototype: Prototype) -> Locations:
    """Return where the values of a function lie. Where no convention takes it, or all that do are
    contradicted, only what debug information says to be in a register is known."""
    for row in _rows(machine, prototype.hints):
        found = row.load().places(prototype)
        if not found.contradicted:
            return found
    return replace(
        find_default(machine).load().places(mark_unreliable(prototype)), contradicted=False
    )


def mark_unreliable(prototype: Prototype) -> Prototype:
    """Return a ``prototype`` of which only what debug information says to be in a register is
    known, because its convention is not."""
    parameters = tuple(lose_unless_named(formal, UNKNOWN) for formal in prototype.parameters)
    return doubt_result(replace(prototype, parameters=parameters))


def doubt_result(prototype: Prototype) -> Prototype:
    """Return a ``prototype`` without its result, unless every convention has that in one place."""
    result = prototype.result
    if result is None or _is_word(result):
        return prototype
    lost = replace(result, missing_reason=result.missing_reason or UNKNOWN)
    return replace(prototype, result=lost)


def find_convention(machine: str, hints: ConventionHints) -> CallingConvention:
    """Return the convention of functions of which the ``hints`` are all that is known."""
    return next(_rows(machine, hints), find_default(machine)).load()


def find_default(machine: str) -> Convention:
    """Return the row of the convention of C."""
    return next(row for row in CONVENTIONS if row.machine == machine)


def _rows(machine: str, hints: ConventionHints) -> Iterator[Convention]:
    return (row for row in CONVENTIONS if row.machine == machine and row.takes(hints))


def _is_word(result: Formal) -> bool:
    """Whether every convention returns a value in the first register of its kind."""
    if result.reference or result.size > 8 or result.scalars is None:
        return False
    return len(result.scalars) <= 1
