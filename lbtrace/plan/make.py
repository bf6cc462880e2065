"""What is decided before the kernel is touched: functions, values, places.

`make_plan` turns a binary and a `Selection` into a `Plan`, which is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lbtrace import arch
from lbtrace.arch import SHALLOW, Architecture, Code, Exits, Passing
from lbtrace.arch.fetching import Detail
from lbtrace.elf import debugfile, plt, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError, UsageError
from lbtrace.model import (
    Binary,
    Function,
    Plan,
    Probe,
    Prototype,
    Site,
)
from lbtrace.plan import callgraph, patterns, switching
from lbtrace.plan.returns import Chooser, ExitPlaces, Returns, Way
from lbtrace.plan.showing import VALUES, Showing, depth, passing

if TYPE_CHECKING:
    from lbtrace.expressions.tree import Request

if TYPE_CHECKING:
    from lbtrace.plan.go import GoPlan

LIMIT = 50_000
"""Functions a plan may hold without ``force``."""

LONGEST_INSTRUCTION = 15
"""Bytes of code looked at where a function's size is unknown (Intel SDM 2.3.11)."""


class Selection(Struct, frozen=True):
    """What to trace of a binary.

    ``patterns`` are exact names, globs or ``/regular expressions/``. ``args``
    is the number of arguments shown; None means those of the prototype, or
    one without debug information. ``returns`` says how returns are seen
    (`lbtrace.returns`), ``hazard`` why no uretprobe may be used in the
    target, if so. ``force`` allows more than `LIMIT` functions. ``detail``
    and ``request`` are those of `lbtrace.showing.Showing`.
    """

    patterns: tuple[str, ...]
    args: int | None = None
    returns: Returns = "auto"
    force: bool = False
    hazard: str = ""
    detail: Detail = SHALLOW
    request: Request | None = None

    @property
    def showing(self) -> Showing:
        """Which values are shown."""
        return Showing(self.args, self.detail, self.request)


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
    go = go_plan(image, table)
    traced, notes = describe(image, architecture, chosen, selection.showing, go)
    notes += _indirect(table, selection)
    functions: list[Function] = []
    probes: list[Probe] = []
    refused: list[str] = []
    placer = Placer(image, table, architecture, go)
    stubs = plt.stubs(image)
    chooser = Chooser(image, table, stubs, selection.returns, selection.hazard)
    chooser.look_at(chosen)
    places = ExitPlaces(image, table, architecture)
    for function, values in traced:
        way = chooser.way(function)
        site = placer.place(function, values, returns=way.kind == "uretprobe")
        if site is None:
            refused.append(function.name)
            continue
        exits = Exits(())
        if way.kind == "sites":
            exits = go.exits(function) if go and go.holds(function) else places.exits(function)
        made = _probes(len(functions), way, values, site, exits)
        foreign = go is not None and not go.holds(function)
        probes += (replace(probe, foreign=True) for probe in made) if foreign else made
        functions.append(
            replace(
                function,
                returns=str(way),
                exits_hidden=bool(exits.hidden),
                may_jump=way.kind == "uretprobe" and callgraph.jumps_away(image, function),
            )
        )
    if not probes:
        raise BinaryError(
            f"{image.path}: the kernel refuses probes on {_some(refused)}",
            "choose functions that begin with other instructions (lbtrace list --sites)",
        )
    probes += go.ends() if go else switching.probes(image, table, stubs)
    notes += _told(refused, "left out, the kernel refuses probes on their first instructions")
    notes += _unseen(functions, selection.returns) + [chooser.warning] * bool(chooser.warning)
    return Plan(
        Binary(image.path, image.build_id, image.machine),
        tuple(functions),
        tuple(probes),
        tuple(notes),
        go=go.layout if go else None,
    )


def _probes(
    function: int, way: Way, passing: Passing, entry: Site, exits: Exits
) -> Iterator[Probe]:
    if way.kind == "uretprobe":
        yield Probe(
            function,
            "call",
            entry,
            passing.fetches,
            passing.result_fetches,
            passing.conditions,
            passing.result_conditions,
        )
        return
    yield Probe(
        function,
        "entry",
        entry,
        passing.fetches,
        conditions=passing.conditions,
        result_conditions=passing.result_conditions,
    )
    for exit in exits.exits:
        if exit.kind == "return":
            fetches, conditions = passing.result_fetches, passing.result_conditions
            yield Probe(function, "return", exit.site, (), fetches, result_conditions=conditions)
        else:
            yield Probe(function, exit.kind, exit.site)


def go_plan(image: Image, table: Symbols) -> GoPlan | None:
    """What knows the functions of Go in ``image``, if there are any."""
    if table.go is None:
        return None
    from lbtrace.plan.go import GoPlan  # late: most programs are not Go

    return GoPlan(image, table.go)


class Traced(NamedTuple):
    """A function with the values that are traced of it, and how they travel."""

    function: Function
    passing: Passing


def describe(
    image: Image,
    architecture: Architecture,
    functions: Sequence[Function],
    wish: Showing,
    go: GoPlan | None = None,
) -> tuple[list[Traced], list[str]]:
    """The values of each of ``functions``, and remarks about them.

    ``go`` knows the functions of Go. Raises `UsageError` where an expression
    of ``wish`` does not fit one of the functions.
    """
    found: dict[int, Prototype] = {}
    notes: list[str] = []
    passed = go.describe(functions, wish) if go else {}
    others = [f for f in functions if f.address not in passed]
    debug = debugfile.find(image) if others else None
    if debug is not None:
        from lbtrace.elf import dwarf  # late: only where there is debug information

        prototypes = dwarf.prototypes(image, others, depth(wish), debug)
        found = prototypes.found
        if prototypes.skipped:
            notes.append(
                f"{prototypes.skipped:,} functions are shown without types:"
                " there is too much debug information to read for all"
            )
    plain = passing(architecture, None, wish) if len(found) < len(others) else Passing()
    asked = wish.request is not None and bool(wish.request.wanted)
    traced: list[Traced] = []
    for function in functions:
        prototype = found.get(function.address)
        values, typed = passed.get(function.address, (plain, prototype is not None or asked))
        if prototype is not None:
            values = passing(architecture, prototype, wish)
        described = Function(
            function.name,
            function.address,
            function.size,
            function.offset,
            function.aliases,
            values.parameters,
            values.result,
            typed,
            language="go" if go and go.holds(function) else "",
        )
        traced.append(Traced(described, values))
    cut = [t.function.name for t in traced if t.passing.cut]
    notes += _told(cut, f"not shown with all arguments: an event carries {VALUES} values")
    return traced, notes


class Placer:
    """Finds the places of probes in one image."""

    def __init__(
        self, image: Image, table: Symbols, architecture: Architecture, go: GoPlan | None = None
    ) -> None:
        self._image = image
        self._table = table
        self._planner = architecture.planner()
        self._go = go

    def place(self, function: Function, passing: Passing, *, returns: bool) -> Site | None:
        """Where the probe of ``function`` stands; None where the kernel allows none."""
        if self._go and self._go.holds(function):
            return self._go.entry(function, passing)
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


def _indirect(table: Symbols, selection: Selection) -> list[str]:
    names = patterns.matching(table.ifuncs, selection.patterns)
    return _told(names, "left out, their code is chosen at run time (ifunc)")


def _unseen(functions: Sequence[Function], wish: Returns) -> list[str]:
    """Remarks about returns that are not seen although the user wants them."""
    groups: dict[str, list[str]] = {}
    for function in functions:
        if wish != "none" and function.returns.startswith("none"):
            groups.setdefault(function.returns, []).append(function.name)
    return [f"{_some(names)}: returns by {way}" for way, names in groups.items()]


def _told(names: list[str], what: str) -> list[str]:
    return [f"{_some(names)}: {what}"] if names else []


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown
