"""Lists the functions of a binary, their signatures, their probe places."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lbtrace.commands.rows import write_json, write_lines
from lbtrace.commands.show import function_lines
from lbtrace.commands.streams import say
from lbtrace.elf import debugfile, symbols
from lbtrace.elf.image import Image, whole
from lbtrace.errors import NoMatchError
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.model import Function, Site, Target, Value
from lbtrace.plan import (
    Placer,
    TracedFunction,
    describe,
    functions,
    go_plan,
    patterns,
    source_files,
)
from lbtrace.plan.selection import Selection
from lbtrace.plan.unmatched import LIBRARY, LISTS
from lbtrace.plan.value_selection import ValueSelection

if TYPE_CHECKING:
    from lbtrace.dwarf.sources import Declared

TYPED_LIMIT = 2_000
"""Up to this many functions have their types read without ``--func``."""


EACH = "/^/"
"""Matches all functions, those that `*` does not take as well."""


class Listed(Struct, omit_defaults=True):
    """A line of ``--json``. ``site`` is null where the kernel refuses a probe; ``file`` and
    ``line`` are where the function is defined."""

    name: str
    address: int
    offset: int
    size: int
    aliases: tuple[str, ...] = ()
    typed: bool = False
    parameters: tuple[Value, ...] = ()
    result: Value | None = None
    site: Site | msgspec.UnsetType | None = msgspec.UNSET
    file: str = ""
    line: int = 0


def run(args: argparse.Namespace) -> int:
    """Print the list. Raises `BinaryError` or `UsageError`."""
    image = _mapped(args) if args.pid else Image.open(args.binary, any_machine=True)
    with whole([image]):
        if args.lines or args.inlined:
            from lbtrace.commands import show_lines  # imported here: few lists need it

            show_lines.run(image, args)
            return 0
        _show(image, args)
    return 0


def _mapped(args: argparse.Namespace) -> Image:
    """The file of a process whose functions are wanted: a named one, its program, or the one that
    it has loaded which has them. Raises `LbtraceError`."""
    # Imported here because most lists are of files.
    from lbtrace.session import found_libraries
    from lbtrace.session.request import Request
    from lbtrace.targets.images import open_images

    target = Target((args.pid,))
    request = Request(
        target=target,
        binaries=(args.binary,) if args.binary else (),
        patterns=tuple(args.func),
        named={"source": tuple(args.source)} if args.source else {},
    )
    found = None if args.lines or args.inlined else found_libraries.find(request)
    if found and len(found.images) == 1:
        args.func = list(found.request.patterns)
    else:
        found = None
    opened = found or open_images(target, request.binaries)
    say(opened.notes)
    return opened.images[0]


def _show(image: Image, args: argparse.Namespace) -> None:
    table = symbols.read(image)
    narrowed, full_names = bool(args.func or args.source or args.exclude), args.full_names
    chosen = patterns.readable(table.functions, full_names=full_names) if not narrowed else []
    if narrowed:
        wanted, excluded = functions.split_excluded(args.func, args.exclude)
        wanted = wanted if wanted or args.source else (EACH,)
        selection = Selection(named={"func": wanted, "source": tuple(args.source)})
        try:
            found = [*functions.find([image], selection), *source_files.find([image], selection)]
            searched = functions.read_symbols([image], selection)
            named = [each for each in found if isinstance(each, Function)]
            (chosen,), notes = functions.merge(searched, named, excluded, full_names=full_names)
        except NoMatchError as error:
            if error.hint.startswith((LIBRARY, LISTS)):
                error.advise("without --func it lists all")
            raise
        say([*(note for note in found if isinstance(note, str)), *notes])
    machine = Machine(image.machine)
    go = go_plan(image, table)
    declared = chosen
    if go is not None and not args.sites and debugfile.find(image) is None:
        declared = [f for f in chosen if not go.holds(f)]  # the others declare no types
    traced: list[TracedFunction] = []
    if narrowed or len(declared) <= TYPED_LIMIT:
        traced, _ = describe(image, machine, declared, ValueSelection(full_names=full_names), go)
    known = {each.function.address: each for each in traced}
    traced = [known.get(f.address) or TracedFunction(f, CallValues()) for f in chosen]
    sites: Iterable[Site | msgspec.UnsetType | None] = [msgspec.UNSET] * len(traced)
    if args.sites:
        placer = Placer(image, table, machine, go)
        traced = [placer.reading_floats(each, ValueSelection()) for each in traced]
        sites = [
            site or placer.place(f, call_values, returns=False)
            for f, call_values, _, site in traced
        ]
    defined = _defined(image, known)
    rows = zip((t.function for t in traced), sites, strict=True)
    if args.json:
        write_json(_listed(f, site, defined.get(f.address)) for f, site in rows)
    else:
        write_lines(
            line for f, site in rows for line in function_lines(f, site, defined.get(f.address))
        )


def _defined(image: Image, addresses: Iterable[int]) -> dict[int, Declared]:
    """Where the functions at ``addresses`` are defined, as far as that is known."""
    debug = debugfile.find(image)
    if debug is None:
        return {}
    # Imported here because only debug information needs them.
    from lbtrace.dwarf.reader.bounds import for_size
    from lbtrace.dwarf.sources import find_declared

    return find_declared(image, addresses, for_size(len(debug.data)))


def _listed(f: Function, site: Site | msgspec.UnsetType | None, defined: Declared | None) -> Listed:
    listed = Listed(f.name, f.address, f.offset, f.size, f.aliases, site=site)
    if f.typed:
        listed.typed, listed.parameters, listed.result = True, f.parameters, f.result
    if defined:
        listed.file, listed.line = defined
    return listed
