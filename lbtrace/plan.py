"""What is decided before the kernel is touched: functions, values, places.

`make_plan` turns a binary and a `Selection` into a `Plan`, which is plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from lbtrace import arch, patterns
from lbtrace.arch import Architecture, Code, Passing
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError, UsageError
from lbtrace.model import (
    LONG,
    Binary,
    Formal,
    Function,
    Plan,
    Probe,
    Prototype,
    Scalar,
    Site,
)

LIMIT = 50_000
"""Functions a plan may hold without ``force``."""

VALUES = 6
"""Values an event carries (``Event.value0`` to ``value5``)."""

LONGEST_INSTRUCTION = 15
"""Bytes of code looked at where a function's size is unknown (Intel SDM 2.3.11)."""

ENTRY_ONLY = frozenset(
    {
        *("setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "vfork", "__vfork"),
        *("getcontext", "swapcontext", "__getcontext", "__swapcontext", "__start_context"),
        *("_start", "_dl_start_user", "__restore_rt", "__restore"),
        *("_dl_runtime_resolve", "_dl_runtime_resolve_fxsave", "_dl_runtime_resolve_xsave"),
        *("_dl_runtime_resolve_xsavec", "_dl_runtime_profile_sse", "_dl_runtime_profile_avx"),
    }
)
"""Functions whose return must not be probed the uretprobe way, which
replaces the return address: they keep that address for later, or are reached
otherwise than by a call, so that something else lies where it would be."""


class Selection(Struct, frozen=True):
    """What to trace of a binary.

    ``patterns`` are exact names, globs or ``/regular expressions/``. ``args``
    is the number of arguments shown; None means those of the prototype, or
    one without debug information. ``returns`` says whether returns are
    traced. ``force`` allows more than `LIMIT` functions.
    """

    patterns: tuple[str, ...]
    args: int | None = None
    returns: Literal["auto", "none"] = "auto"
    force: bool = False


def make_plan(binary: str | Image, selection: Selection) -> Plan:
    """The plan for tracing ``selection`` of ``binary``, a path or an open image.

    Raises `BinaryError` if the file cannot be traced, `NoMatchError` if a
    pattern selects nothing, `UsageError` if the selection is too large.
    """
    image = binary if isinstance(binary, Image) else Image.open(binary)
    table = symbols.read(image)
    chosen = patterns.select(table, selection.patterns, image.path)
    if len(chosen) > LIMIT and not selection.force:
        raise UsageError(
            f"{len(chosen):,} functions of {image.path} match, more than {LIMIT:,}",
            "narrow --func, or add --force",
        )
    if selection.args is not None and selection.args < 0:
        raise UsageError(f"--args {selection.args}: is negative", "give 0 for no arguments")
    architecture = arch.of(image.machine)
    traced, notes = describe(image, architecture, chosen, selection.args)
    notes += _indirect(table, selection)
    functions: list[Function] = []
    probes: list[Probe] = []
    refused: list[str] = []
    entry_only: list[str] = []
    placer = Placer(image, table, architecture)
    for function, passing in traced:
        kind: Literal["call", "entry"] = "call" if selection.returns == "auto" else "entry"
        if kind == "call" and is_entry_only(image, function):
            kind = "entry"
            entry_only.append(function.name)
        site = placer.place(function, passing, returns=kind == "call")
        if site is None:
            refused.append(function.name)
            continue
        result_fetches = passing.result_fetches if kind == "call" else ()
        probes.append(Probe(len(functions), kind, site, passing.fetches, result_fetches))
        functions.append(function)
    if not probes:
        raise BinaryError(
            f"{image.path}: the kernel refuses probes on {_some(refused)}",
            "choose functions that begin with other instructions (lbtrace list --sites)",
        )
    notes += _told(refused, "left out, the kernel refuses probes on their first instructions")
    notes += _told(entry_only, "traced without their return, which cannot be probed safely")
    return Plan(
        Binary(image.path, image.build_id, image.machine),
        tuple(functions),
        tuple(probes),
        tuple(notes),
    )


class Traced(NamedTuple):
    """A function with the values that are traced of it, and how they travel."""

    function: Function
    passing: Passing


def describe(
    image: Image, architecture: Architecture, functions: Sequence[Function], args: int | None
) -> tuple[list[Traced], list[str]]:
    """The values of each of ``functions``, and remarks about them.

    ``args`` is that of `Selection`.
    """
    found: dict[int, Prototype] = {}
    notes: list[str] = []
    if image.has_debug_info:
        from lbtrace.elf import dwarf  # late: imports pyelftools

        prototypes = dwarf.prototypes(image, functions)
        found = prototypes.found
        if prototypes.skipped:
            notes.append(
                f"{prototypes.skipped:,} functions are shown without types:"
                " there is too much debug information to read for all"
            )
    untyped = _sized(Prototype((), _long("")), 1 if args is None else args)
    plain = architecture.passing(untyped, VALUES)
    traced: list[Traced] = []
    for function in functions:
        prototype = found.get(function.address)
        passing = plain
        if prototype is not None:
            passing = architecture.passing(_sized(prototype, args), VALUES)
        described = Function(
            function.name,
            function.address,
            function.size,
            function.offset,
            function.aliases,
            passing.parameters,
            passing.result,
            prototype is not None,
        )
        traced.append(Traced(described, passing))
    cut = [t.function.name for t in traced if t.passing.cut]
    notes += _told(cut, f"shown with {VALUES} arguments, the most an event carries")
    return traced, notes


class Placer:
    """Finds the places of probes in one image."""

    def __init__(self, image: Image, table: Symbols, architecture: Architecture) -> None:
        self._image = image
        self._table = table
        self._planner = architecture.planner()

    def place(self, function: Function, passing: Passing, *, returns: bool) -> Site | None:
        """Where the probe of ``function`` stands; None where the kernel allows none."""
        size = function.size or LONGEST_INSTRUCTION
        limit = function.address + (function.size or 1)
        code = Code(
            self._image.code(function.address, size),
            function.address,
            function.offset,
            min(limit, self._table.following(function.address)),
        )
        keep = {f.register for f in passing.fetches if f.base == "register"}
        return self._planner.choose(code, keep, returns=returns)


def is_entry_only(image: Image, function: Function) -> bool:
    """Whether a return probe on ``function`` would harm the program."""
    return function.address == image.entry or not ENTRY_ONLY.isdisjoint(
        (function.name, *function.aliases)
    )


def _long(name: str) -> Formal:
    return Formal(name, LONG, LONG.size, (Scalar(0, LONG.size, "integer"),))


def _sized(prototype: Prototype, count: int | None) -> Prototype:
    """``prototype`` with ``count`` parameters; those it does not declare are integers."""
    if count is None:
        return prototype
    extra = tuple(_long(f"arg{n}") for n in range(len(prototype.parameters), count))
    return Prototype((*prototype.parameters[:count], *extra), prototype.result)


def _indirect(table: Symbols, selection: Selection) -> list[str]:
    names = patterns.matching(table.ifuncs, selection.patterns)
    return _told(names, "left out, their code is chosen at run time (ifunc)")


def _told(names: list[str], what: str) -> list[str]:
    return [f"{_some(names)}: {what}"] if names else []


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown
