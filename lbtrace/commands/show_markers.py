"""What ``lbtrace list --usdt`` shows: markers by their file, with arguments and pairs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lbtrace.commands.rows import ListedVariable, listed, write_json, write_lines
from lbtrace.commands.streams import say
from lbtrace.elf.image import Image, whole
from lbtrace.elf.stap_notes import Marker, unread
from lbtrace.errors import NoMatchError
from lbtrace.plan import markers
from lbtrace.plan.marker_values import marker_values
from lbtrace.providers import Definitions, open_definitions
from lbtrace.session.marked_files import loaded_markers
from lbtrace.system.process import check_pid


class Listed(Struct, omit_defaults=True):
    """A line of ``--json``: a marker at one of its places. ``closed_by`` is the marker that closes
    the call which this one opens."""

    name: str
    binary: str
    address: int
    arguments: tuple[ListedVariable, ...]
    guarded: bool = False
    closed_by: str = ""


def run(args: argparse.Namespace) -> int:
    """Print the markers. Raises `LbtraceError`."""
    definitions = open_definitions(args.provider)
    if args.pid and not args.binary:
        # Imported here because only running processes have mapped files.
        from lbtrace.targets.mapped_files import open_program

        check_pid(args.pid)
        images = loaded_markers(args.pid)
        if not images:
            open_program(args.pid)  # one that cannot be traced is refused, as attach does
            raise NoMatchError(
                f"process {args.pid} has loaded no file with markers (USDT)",
                "it may load one later: attach --usdt waits for that",
            )
    elif args.pid:
        from lbtrace.targets.mapped_files import open_mapped

        images = [open_mapped(args.pid, args.binary).image]
    else:
        images = [Image.open(args.binary, any_machine=True)]
    with whole(images):
        found = markers.select(images, [args.usdt])
        known = markers.known((m for each in found for m in each), definitions)
        rows = [*_listed(images, found, known)]
    say(warning for image in images for warning in unread(image))
    if args.json:
        write_json(rows)
    else:
        write_lines(_lines(rows))
    return 0


def _listed(
    images: Sequence[Image], found: Sequence[Sequence[Marker]], definitions: Definitions
) -> Iterator[Listed]:
    closing = {pair.opening: pair.closing for pair in definitions.pairs}
    for image, those in zip(images, found, strict=True):
        for marker in sorted(those, key=lambda each: (each.title, each.address)):
            values = tuple(map(listed, marker_values(image, marker, definitions)))
            closes = closing.get(marker.title, "")
            guarded = bool(marker.semaphore)
            yield Listed(marker.title, image.path, marker.address, values, guarded, closes)


def _lines(rows: Sequence[Listed]) -> Iterator[str]:
    binary = ""
    for each in rows:
        if each.binary != binary:
            binary = each.binary
            yield binary
        arguments = ", ".join(map(_declared, each.arguments))
        closes = f"  closed by {each.closed_by}" if each.closed_by else ""
        yield f"{each.address:#12x}  {each.name}({arguments}){closes}"


def _declared(argument: ListedVariable) -> str:
    space = "" if argument.type.endswith("*") else " "
    reason = f" <{argument.reason}>" if argument.reason else ""
    return f"{argument.type}{space}{argument.name}{reason}"
