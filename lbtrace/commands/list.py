"""``lbtrace list``: the functions of a binary, their signatures, their probe places."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from lbtrace import arch
from lbtrace.commands.show import function_lines
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.model import Function, Site, Value
from lbtrace.plan import Placer, Traced, describe, go_plan, patterns
from lbtrace.plan.returns import keeps_address
from lbtrace.plan.showing import Showing

HELP = "functions of a binary, with their signatures"

TYPED_LIMIT = 2_000
"""Functions whose types are read without being asked for by --func."""


class Listed(Struct, omit_defaults=True):
    """A line of ``--json``. ``site`` is null where the kernel refuses a probe."""

    name: str
    address: int
    offset: int
    size: int
    aliases: tuple[str, ...] = ()
    typed: bool = False
    parameters: tuple[Value, ...] = ()
    result: Value | None = None
    site: Site | msgspec.UnsetType | None = msgspec.UNSET


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument("--binary", required=True, metavar="PATH", help="program or library")
    parser.add_argument(
        "--func",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only functions of this name, glob or /regex/ (repeatable)",
    )
    parser.add_argument("--sites", action="store_true", help="show where probes would stand")
    parser.add_argument("--json", action="store_true", help="one JSON array, for programs")


def run(args: argparse.Namespace) -> int:
    """Prints the list. Raises `BinaryError` or `UsageError`."""
    image = Image.open(args.binary, any_machine=True)
    table = symbols.read(image)
    chosen = patterns.readable(table.functions) if not args.func else []
    if args.func:
        (chosen,) = patterns.select([patterns.Searched(image.path, table)], args.func)
    architecture = arch.of(image.machine)
    go = go_plan(image, table)
    told = chosen
    if go is not None and not (image.has_debug_info or args.sites):
        told = [f for f in chosen if not go.holds(f)]  # of the others nothing is declared
    traced: list[Traced] = []
    if args.func or len(told) <= TYPED_LIMIT:
        traced, _ = describe(image, architecture, told, Showing(), go)
    known = {each.function.address: each for each in traced}
    traced = [known.get(f.address) or Traced(f, arch.Passing()) for f in chosen]
    sites: Iterable[Site | msgspec.UnsetType | None] = [msgspec.UNSET] * len(traced)
    if args.sites:
        placer = Placer(image, table, architecture, go)
        traced = [placer.reading_floats(each, Showing()) for each in traced]
        sites = [
            site or placer.place(f, passing, returns=not keeps_address(image, f))
            for f, passing, _, site in traced
        ]
    rows = zip((t.function for t in traced), sites, strict=True)
    if args.json:
        sys.stdout.write(_json(rows))
    else:
        sys.stdout.writelines(f"{line}\n" for f, site in rows for line in function_lines(f, site))
    return 0


def _json(rows: Iterable[tuple[Function, Site | msgspec.UnsetType | None]]) -> str:
    listed = [
        Listed(f.name, f.address, f.offset, f.size, f.aliases, f.typed, site=site)
        if not f.typed
        else Listed(
            f.name, f.address, f.offset, f.size, f.aliases, True, f.parameters, f.result, site
        )
        for f, site in rows
    ]
    return "[" + ",\n".join(msgspec.json.encode(row).decode() for row in listed) + "]\n"
