"""Plans probes that stand at a place inside of functions: source lines, and any instruction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from lbtrace.dwarf.lines import LAST, SourceLines
from lbtrace.dwarf.scopes import Variable
from lbtrace.dwarf.sources import path_test
from lbtrace.elf.image import PT_LOAD, Image
from lbtrace.errors import BinaryError, LbtraceError, NoMatchError, UsageError, option
from lbtrace.plan.found import Item
from lbtrace.plan.patterns import addressed
from lbtrace.plan.point_probes import Point, PointPlanner, refuse_returns
from lbtrace.plan.selection import Selection
from lbtrace.plan.source_files import no_source_file
from lbtrace.plan.value_selection import depth, qualifies
from lbtrace.system.lookups import note

LINES = re.compile(r"(?P<file>.+):(?P<first>\d{1,9})(-(?P<last>\d{1,9}))?")
HEXADECIMAL = re.compile(r"(?P<before>.+:\+?)(?P<digits>[0-9a-fA-F]{1,16})")
"""A place without ``0x``, as objdump and nm print it."""

PLACE = re.compile(r"(?P<file>.+):(?P<offset>\+?)(?P<number>0x[0-9a-fA-F]{1,16}|\d{1,18})")


def find(images: Sequence[Image], selection: Selection) -> Iterator[Item]:
    """Yield the points at the lines and places that ``selection`` names.

    Raises `UsageError`, `NoMatchError`, `BinaryError`.
    """
    refuse_returns(selection, f"{option('line')} and {option('at')} see")
    finder = _Finder(images, selection)
    for text in selection.named.get("line", ()):
        finder.add_lines(text)
    for text in selection.named.get("at", ()):
        finder.add_place(text)
    for binary, (image, points) in enumerate(zip(images, finder.found, strict=True)):
        if points:
            planner = PointPlanner(image, binary, selection)
            yield from filter(None, map(planner.plan, points.values()))
            yield planner.report()


class _Finder:
    """Finds the points that a selection names: ``found`` has those of each image."""

    def __init__(self, images: Sequence[Image], selection: Selection) -> None:
        self._images = images
        self._paths = [image.path for image in images]
        self._selection = selection
        self._shows = selection.request is not None or selection.locals
        self._known: dict[int, SourceLines] = {}
        self.found: list[dict[tuple[str, int], Point]] = [{} for _ in images]

    def _source_lines(self, number: int) -> SourceLines:
        """The lines of an image. Raises `BinaryError` where they are not known."""
        if number not in self._known:
            values = self._selection.values
            self._known[number] = SourceLines(
                self._images[number],
                depth(values),
                qualified=qualifies(values),
                full_names=self._selection.full_names,
            )
        return self._known[number]

    def add_lines(self, text: str) -> None:
        """Add the places of the lines that ``text`` names."""
        meant, name = addressed(text, self._paths)
        file, first, last = read_lines(name)
        errors: list[LbtraceError] = []
        around: list[SourceLines] = []
        count = 0
        for number in meant:
            try:
                lines = self._source_lines(number)
            except BinaryError as error:
                errors.append(error)
                continue
            around.append(lines)
            for place in lines.places(path_test(file, "line"), first, last):
                count += 1
                title = f"{os.path.basename(place.path)}:{place.line}"
                self._add(number, title, place.address, place.unit, place.view)
        if not count and len(errors) == len(meant):
            raise errors[0]
        if not count:
            raise _no_line(name, file, first, [self._paths[n] for n in meant], around)

    def add_place(self, text: str) -> None:
        """Add the place that ``FILE:ADDRESS`` names, or ``FILE:+OFFSET``."""
        read = PLACE.fullmatch(text)
        if read is None:
            meant = HEXADECIMAL.fullmatch(text)
            raise UsageError(
                f"{option('at')} {text}: is no place in a file",
                _with_prefix(meant)
                if meant
                else "write FILE:ADDRESS, as in ./prog:0x1149, or FILE:+OFFSET",
            )
        value = int(read["number"], 16 if read["number"].startswith("0x") else 10)
        number = next((n for n, p in enumerate(self._paths) if _is_file(p, read["file"])), -1)
        if number < 0:
            note(read["file"])
            exists = os.path.isfile(read["file"])
            raise NoMatchError(
                f"{text}: none of the traced files is called so",
                f"add {option('binary', read['file'])}"
                if exists
                else f"traced: {', '.join(self._paths[:3])}; there is no file {read['file']}",
            )
        image = self._images[number]
        address = _code_at(image, value, read)
        if address is None:
            raise NoMatchError(f"{text}: there is no code", _other_place(image, text, read))
        unit = None
        if self._shows:
            with suppress(BinaryError):  # registers are known without debug information
                unit = self._source_lines(number).unit_of(address)
        title = f"{os.path.basename(image.path)}:{read['offset']}{value:#x}"
        self._add(number, title, address, unit, by_register=True)

    def _add(
        self,
        number: int,
        title: str,
        address: int,
        unit: int | None,
        view: int = -1,
        *,
        by_register: bool = False,
    ) -> None:
        variables: Sequence[Variable] = ()
        if self._shows and unit is not None:
            variables = self._source_lines(number).variables(unit, address, view)
        self.found[number][title, address] = Point(
            title, address, tuple(variables), by_register=by_register
        )


def read_lines(text: str) -> tuple[str, int, int]:
    """The file, and the first and last line, that ``FILE:LINE``, ``FILE:FIRST-LAST`` and ``FILE:*``
    name. Raises `UsageError`."""
    if text.endswith(":*"):
        return text[:-2], 1, LAST
    read = LINES.fullmatch(text)
    if read is None:
        raise UsageError(
            f"{option('line')} {text}: is no line of a file",
            "write FILE:LINE or FILE:FIRST-LAST, as in server.c:312",
        )
    first = int(read["first"])
    last = int(read["last"] or first)
    if last < first:
        raise UsageError(
            f"{option('line')} {text}: ends before it begins",
            f"write the lower line first: {read['file']}:{last}-{first}",
        )
    return read["file"], first, last


def _no_line(
    text: str,
    file: str,
    line: int,
    paths: Sequence[str],
    around: Sequence[SourceLines],
) -> NoMatchError:
    named = " or ".join(paths)
    known = sorted({n for lines in around for n in lines.numbers(path_test(file)) if n})
    if known:
        near = sorted(sorted(known, key=lambda each: abs(each - line))[:4])
        return NoMatchError(
            f"{text}: this line of {named} has no code",
            f"the nearest lines with code: {', '.join(map(str, near))}",
        )
    all_paths = {path for lines in around for path in lines.paths}
    return no_source_file(all_paths, file, paths)


def file_of(text: str) -> str:
    """The file that ``FILE:ADDRESS`` names; empty where it names none."""
    read = PLACE.fullmatch(text)
    return read["file"] if read else ""


def _code_at(image: Image, value: int, read: re.Match[str]) -> int | None:
    """The address of the code at a place, whose number is ``value``; None where there is none."""
    address = _address(image, value) if read["offset"] else value
    return None if address is None or image.offset(address) < 0 else address


def _other_place(image: Image, text: str, read: re.Match[str]) -> str:
    """What to do about a place where there is no code."""
    meant = HEXADECIMAL.fullmatch(text)
    if meant and _code_at(image, int(meant["digits"], 16), read) is not None:
        return _with_prefix(meant)
    return "give the address of an instruction, as objdump and nm print it, after 0x, or +OFFSET"


def _with_prefix(meant: re.Match[str]) -> str:
    digits = meant["digits"].lstrip("0") or "0"
    place = option("at", f"{meant['before']}0x{digits}")
    return f"hexadecimal numbers begin with 0x: {place}"


def _is_file(path: str, name: str) -> bool:
    if path == name or path.endswith(f"/{name}"):
        return True
    note(path)
    note(name)
    try:
        return os.path.samefile(path, name)
    except OSError:
        return False


def _address(image: Image, offset: int) -> int | None:
    """The virtual address of the code at ``offset`` of the file."""
    for segment in image.executable_segments:
        if segment.type == PT_LOAD and 0 <= offset - segment.offset < segment.size:
            return segment.address + offset - segment.offset
    return None
