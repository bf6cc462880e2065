"""What is decided before the kernel is touched: functions, values, places.

`make_plan` turns binaries and a `Selection` into a `Plan`, which is plain data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lbtrace import arch
from lbtrace.arch import SHALLOW, Architecture, Code, Exits, Passing
from lbtrace.arch.places import Detail
from lbtrace.elf import debugfile, plt, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory
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
from lbtrace.model import Symbols as Named
from lbtrace.plan import callgraph, floats, hazards, landing, patterns, switching
from lbtrace.plan.callgraph import Node, Part
from lbtrace.plan.joining import joined
from lbtrace.plan.returns import Chooser, ExitPlaces, Returns, Way
from lbtrace.plan.showing import VALUES, Showing, depth, leads_to_code, passing

if TYPE_CHECKING:
    from lbtrace.expressions.tree import Request

if TYPE_CHECKING:
    from lbtrace.plan.go import GoPlan

LIMIT = 50_000
"""Functions a plan may hold without ``force``."""

LONGEST_INSTRUCTION = 15
"""Bytes of code looked at where a function's size is unknown (Intel SDM 2.3.11)."""


class Selection(Struct, frozen=True):
    """What to trace of some binaries.

    ``patterns`` are exact names, globs or ``/regular expressions/``. ``args``
    is the number of arguments shown; None means those of the prototype, or
    one without debug information. ``returns`` says how returns are seen
    (`lbtrace.returns`), ``hazard`` why no uretprobe may be used in the
    target, if so; ``beside`` are paths of what runs there and is not traced,
    None where any program may.
    ``force`` allows more than `LIMIT` functions. ``detail`` and ``request`` are
    those of `lbtrace.showing.Showing`.
    """

    patterns: tuple[str, ...]
    args: int | None = None
    returns: Returns = "auto"
    force: bool = False
    hazard: str = ""
    beside: tuple[str, ...] | None = ()
    detail: Detail = SHALLOW
    request: Request | None = None

    @property
    def showing(self) -> Showing:
        """Which values are shown."""
        return Showing(self.args, self.detail, self.request)


def make_plan(binaries: str | Image | Sequence[str | Image], selection: Selection) -> Plan:
    """The plan for tracing ``selection`` of ``binaries``, paths or open images.

    Raises `BinaryError` if a file cannot be traced, `NoMatchError` if a
    pattern selects nothing in any, `UsageError` if the selection is too large.
    """
    images = _images([binaries] if isinstance(binaries, str | Image) else binaries)
    searched = [patterns.Searched(image.path, symbols.read(image)) for image in images]
    chosen = patterns.select(searched, selection.patterns)
    count, paths = sum(map(len, chosen)), " and ".join(image.path for image in images)
    if count > LIMIT and not selection.force:
        raise UsageError(
            f"{count:,} functions of {paths} match, more than {LIMIT:,}",
            "narrow --func, or add --force",
        )
    if selection.args is not None and selection.args < 0:
        raise UsageError(f"--args {selection.args}: is negative", "give 0 for no arguments")
    parts = [Part(i, plt.stubs(i), found) for i, found in zip(images, chosen, strict=True)]
    tables = [binary.symbols for binary in searched]
    forbidding = _hazards(parts, tables, selection)
    recursive: dict[Node, str] = {}
    if selection.returns == "auto":
        recursive = callgraph.recursive(
            [
                part._replace(functions=()) if hazard else part
                for part, hazard in zip(parts, forbidding, strict=True)
            ]
        )
    plans: list[Plan] = []
    for number, (part, table, hazard) in enumerate(zip(parts, tables, forbidding, strict=True)):
        circles = {address: how for (n, address), how in recursive.items() if n == number}
        chooser = Chooser(part.image, table, selection.returns, hazard, circles)
        plans.append(_part_plan(part, table, chooser, selection))
    plan = joined(plans)
    if not plan.functions:
        refused = [function.name for found in chosen for function in found]
        raise BinaryError(
            f"{paths}: the kernel refuses probes on {_some(refused)}",
            "choose functions that begin with other instructions (lbtrace list --sites)",
        )
    return replace(plan, notes=(*plan.notes, *_warning(forbidding, selection)))


def _images(binaries: Sequence[str | Image]) -> list[Image]:
    """The images of ``binaries``; of several names of a file the first."""
    images = [b if isinstance(b, Image) else Image.open(b) for b in binaries]
    files: dict[tuple[int, int], Image] = {}
    for image in images:
        status = os.stat(image.path)
        files.setdefault((status.st_dev, status.st_ino), image)
    return list(files.values())


def _hazards(parts: Sequence[Part], tables: Sequence[Symbols], selection: Selection) -> list[str]:
    """What is against uretprobes in each part, where that matters."""
    if selection.hazard or selection.returns not in ("auto", "uretprobe"):
        return [selection.hazard] * len(parts)
    return hazards.reasons(parts, tables, selection.beside)


def _part_plan(part: Part, table: Symbols, chooser: Chooser, selection: Selection) -> Plan:
    """The plan for one binary; it may come out empty."""
    image, stubs, matching = part
    architecture = arch.of(image.machine)
    go = go_plan(image, table)
    traced, notes = describe(image, architecture, matching, selection.showing, go)
    notes += _indirect(table, image.path, selection)
    functions: list[Function] = []
    probes: list[Probe] = []
    refused: list[str] = []
    placer = Placer(image, table, architecture, go)
    places = ExitPlaces(image, table, architecture)
    read_floats = partial(
        placer.reading_floats,
        wish=selection.showing,
        exits=places.exits if selection.returns != "none" else None,
        entry=selection.returns != "uretprobe",  # that stands where the function begins
    )
    traced = [*map(read_floats, traced)]
    for function, values, _, chosen in traced:
        way = chooser.way(function)
        if chosen and way.kind == "uretprobe":
            way = Way("sites", "its floats are read behind its first instructions")
        site = chosen or placer.place(function, values, returns=way.kind == "uretprobe")
        if site is None:
            refused.append(function.name)
            continue
        exits = Exits(())
        if way.kind == "sites":
            exits = go.exits(function) if go and go.holds(function) else places.exits(function)
        made = _probes(len(functions), way, values, site, exits)
        foreign = go is not None and not (go.tells_goroutines and go.holds(function))
        probes += (replace(probe, foreign=True) for probe in made) if foreign else made
        functions.append(
            replace(
                function,
                returns=str(way),
                exits_hidden=bool(exits.hidden),
                may_jump=way.kind == "uretprobe" and callgraph.jumps_away(image, function),
            )
        )
    notes += go.notes() if go else ()
    if go:
        probes += go.ends() if go.tells_goroutines else ()
    else:
        pads = [pad for function in functions for pad in places.pads(function)]
        probes += switching.probes(image, table, stubs)
        probes += landing.probes(image, table, stubs, pads)
    notes += _told(refused, "left out, the kernel refuses probes on their first instructions")
    notes += _unseen(functions, selection.returns)
    binary = Binary(
        image.path,
        image.build_id,
        image.machine,
        go.layout if go else None,
        _symbols(table, stubs, functions),
    )
    return Plan((binary,), tuple(functions), tuple(probes), tuple(notes))


def _warning(forbidding: Sequence[str], selection: Selection) -> list[str]:
    """What who insists on uretprobes should know."""
    hazard = next(filter(None, forbidding), "")
    if selection.returns != "uretprobe" or not hazard:
        return []
    return [f"uretprobes may harm the program or mislead: {hazard}"]


def _symbols(table: Symbols, stubs: Mapping[int, plt.Stub], functions: Sequence[Function]) -> Named:
    """The names of all functions, where pointers to some are shown."""
    values = [v for f in functions for v in (*f.parameters, *([f.result] if f.result else ()))]
    if not any(map(leads_to_code, values)):
        return Named()
    names = {address: stub.name for address, stub in stubs.items()}
    names |= {f.address: f.name for f in table.functions}
    addresses = sorted(names)
    return Named(tuple(addresses), tuple(names[a] for a in addresses))


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
            keeps=passing.kept,
        )
        return
    keeps = passing.kept if exits.exits else ""
    yield Probe(
        function,
        "entry",
        entry,
        passing.fetches,
        conditions=passing.conditions,
        result_conditions=passing.result_conditions,
        keeps=keeps,
    )
    for exit in exits.exits:
        probe = Probe(function, exit.kind, exit.site, keeps=keeps)
        if exit.kind == "return":
            fetches, conditions = passing.result_fetches, passing.result_conditions
            probe = replace(probe, result_fetches=fetches, result_conditions=conditions)
        elif passing.result_conditions:  # it has no result of which they could hold
            continue
        yield probe


def go_plan(image: Image, table: Symbols) -> GoPlan | None:
    """What knows the functions of Go in ``image``, if there are any."""
    if table.go is None:
        return None
    from lbtrace.plan.go import GoPlan  # late: most programs are not Go

    return GoPlan(image, table.go)


class Traced(NamedTuple):
    """A function with the values that are traced of it, and how they travel; what debug
    information tells of it, if it is not Go's. ``site`` is where the arguments are read,
    if it has to be behind the entry."""

    function: Function
    passing: Passing
    prototype: Prototype | None = None
    site: Site | None = None


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
        notes += _told(prototypes.missing, "not found, and with it the types of some functions")
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
        traced.append(Traced(described, values, prototype))
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
        self._architecture = architecture
        self._planner = architecture.planner()
        self._memory = Memory(image)
        self._go = go

    def place(self, function: Function, passing: Passing, *, returns: bool) -> Site | None:
        """Where the probe of ``function`` stands; None where the kernel allows none."""
        if self._go and self._go.holds(function):
            return self._go.entry(function, passing)
        return self._planner.choose(self._code(function), passing.registers, returns=returns)

    def reading_floats(
        self,
        traced: Traced,
        wish: Showing,
        exits: Callable[[Function], Exits] | None = None,
        *,
        entry: bool = True,
    ) -> Traced:
        """``traced`` with its floats read where they can be (`floats.Mover.moved`)."""
        function, plain, prototype, _ = traced
        if prototype is None or not floats.are_unread(plain):
            return traced
        mover = floats.Mover(self._architecture, self._memory.read, wish)
        left = partial(exits, function) if exits else None
        moved = mover.moved(self._code(function), prototype, plain, left, entry=entry)
        if moved is None:
            return traced
        passing, site = moved
        shown = replace(function, parameters=passing.parameters, result=passing.result)
        return Traced(shown, passing, prototype, site)

    def _code(self, function: Function) -> Code:
        size = function.size or LONGEST_INSTRUCTION
        limit = function.address + (function.size or 1)
        return Code(
            self._image.code(function.address, size),
            function.address,
            function.offset,
            min(limit, self._table.following(function.address)),
        )


def _indirect(table: Symbols, path: str, selection: Selection) -> list[str]:
    meant = (patterns.addressed(pattern, [path])[1] for pattern in selection.patterns)
    names = patterns.matching(table.ifuncs, list(meant))
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
