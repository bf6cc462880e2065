"""What ``lbtrace list`` shows with ``--lines`` and ``--inlined``: places of lines, places where
functions were inlined, and what can be read there."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator

from msgspec import Struct

from lbtrace.commands.rows import ListedVariable, listed, write_json, write_lines
from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.sources import path_test
from lbtrace.elf import demangle, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError
from lbtrace.machine import Machine
from lbtrace.plan import Placer
from lbtrace.plan.functions import split_excluded
from lbtrace.plan.inlined import find_copies as find_inlined
from lbtrace.plan.selection import Selection
from lbtrace.plan.source_files import no_source_file


class ListedLine(Struct, omit_defaults=True):
    """A line of ``--lines --json``: a place where the code of a line of ``file`` begins; ``reason``
    says why it has no point."""

    file: str
    line: int
    address: int
    function: str
    variables: tuple[ListedVariable, ...] = ()
    reason: str = ""


class ListedCopy(Struct, omit_defaults=True):
    """A line of ``--inlined --json``: a place where a function was inlined ``within`` another."""

    name: str
    address: int
    within: str
    parameters: tuple[ListedVariable, ...] = ()


def run(image: Image, args: Namespace) -> None:
    """Print the lines or the copies. Raises `BinaryError` or `NoMatchError`."""
    if args.lines:
        lines = find_lines(image, args.lines)
        write_json(lines) if args.json else write_lines(map(line_text, lines))
    else:
        copies = find_copies(image, args)
        write_json(copies) if args.json else write_lines(map(copy_text, copies))


def find_lines(image: Image, file: str) -> Iterator[ListedLine]:
    """Yield each place where a line of ``file`` has code.

    Raises `BinaryError` without debug information, `NoMatchError` where there is no such file.
    """
    lines = SourceLines(image, 0)
    places = lines.places(path_test(file, "lines"))
    if not places:
        raise no_source_file(lines.paths, file, [image.path], " with code")
    reasons = _why_none(image, {place.address for place in places})
    for path, line, address, unit, view in places:
        variables = tuple(map(listed, lines.variables(unit, address, view)))
        function = lines.function(unit, address)
        yield ListedLine(path, line, address, function, variables, reasons.get(address, ""))


def _why_none(image: Image, addresses: Iterable[int]) -> dict[int, str]:
    """Why no probe can be at some of ``addresses``."""
    table = image.once(symbols.read_any)
    placer = Placer(image, table, Machine(image.machine))
    # By address, as the code of functions is followed one after the other.
    found = ((address, placer.sites.at(address)) for address in sorted(addresses))
    return {address: why for address, why in found if isinstance(why, str)}


def find_copies(image: Image, args: Namespace) -> list[ListedCopy]:
    """Return each place where the functions that options name were inlined.

    Raises `BinaryError` without debug information, `NoMatchError` where none was inlined.
    """
    names, excluded = split_excluded(args.func, args.exclude)
    named = {"func": names, "source": tuple(args.source)}
    (copies,) = find_inlined([image], Selection(named=named, exclude=excluded))
    if not copies:
        raise NoMatchError(
            f"{', '.join((*names, *args.source))}: no such function was inlined in {image.path}",
            "without --inlined lbtrace list shows functions that have calls",
        )
    return [
        ListedCopy(
            demangle.short(copy.name),
            copy.address,
            demangle.short(copy.within),
            tuple(map(listed, copy.parameters)),
        )
        for copy in copies
    ]


def line_text(place: ListedLine) -> str:
    """Return the address of a place, its line, function, and the variables that can be read; or
    why it has no point."""
    title = f"{os.path.basename(place.file)}:{place.line}"
    shown = f"<no point: {place.reason}>" if place.reason else _readable(place.variables)
    return f"{place.address:#10x}  {title:<20}  {place.function}  {shown}".rstrip()


def copy_text(copy: ListedCopy) -> str:
    """Return the address of a copy, its function with the parameters that can be read, and the
    function that it is in."""
    name = f"{copy.name}({_readable(copy.parameters)})"
    return f"{copy.address:#10x}  {name}, inlined in {copy.within}"


def _readable(variables: Iterable[ListedVariable]) -> str:
    """The types and names of those that can be read."""
    return ", ".join(f"{each.type} {each.name}" for each in variables if not each.reason)
