"""Points where functions were inlined: ``--inlined`` (see `lbtrace.plan.found.Finder`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from lbtrace.dwarf.inlined import Inlined, Name, find_inlined
from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.sources import path_test
from lbtrace.elf import cpp_names, debugfile, demangle
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, NoMatchError, option
from lbtrace.plan import patterns
from lbtrace.plan.found import Item
from lbtrace.plan.go import names as go_names
from lbtrace.plan.point_probes import Point, PointPlanner, refuse_returns
from lbtrace.plan.selection import Selection
from lbtrace.plan.unmatched import LATER, LIBRARY
from lbtrace.plan.value_selection import depth, qualifies
from lbtrace.text import some

NONE = "no copies of the functions are inlined"


def find(images: Sequence[Image], selection: Selection) -> Iterator[Item]:
    """Yield a point where each copy of a function begins that ``selection`` names. Raises
    `UsageError`, `BinaryError`."""
    found = find_copies(images, selection)
    refuse_returns(selection, f"{option('inlined')} sees")
    for binary, (image, copies) in enumerate(zip(images, found, strict=True)):
        planner = PointPlanner(image, binary, selection, "function")
        for copy in copies:
            title = demangle.short(copy.name)
            title = title if selection.full_names else cpp_names.shorten(title)
            shown = copy.parameters if selection.request else copy.parameters[: selection.args]
            if made := planner.plan(Point(title, copy.address, shown)):
                yield made
        yield planner.report()
    if not any(found):
        yield NONE


def find_copies(images: Sequence[Image], selection: Selection) -> list[list[Inlined]]:
    """Return where the functions that a selection names were inlined in each image. Raises
    `BinaryError` where no image has debug information."""
    found: list[list[Inlined]] = [[] for _ in images]
    errors: list[BinaryError] = []
    paths = [image.path for image in images]
    names = selection.named.get("func", ())
    words = [patterns.kept_word(patterns.addressed(name, paths)[1]) for name in names]
    for number, image in enumerate(images):
        try:
            lines = SourceLines(
                image,
                depth(selection.values),
                qualified=qualifies(selection.values),
                full_names=selection.full_names,
            )
            if selection.named.get("source") or any(map(lines.may_name, words)):
                found[number] = find_inlined(lines, _test(images, number, selection))
        except BinaryError as error:
            errors.append(error)
    if errors and len(errors) == len(images):
        raise errors[0]
    return found


def _test(images: Sequence[Image], number: int, selection: Selection) -> Callable[[Name], bool]:
    """A predicate whether a function of the image with a ``number`` is selected."""
    paths = [image.path for image in images]

    def meant(wanted: Iterable[str]) -> list[str]:
        read = (patterns.addressed(each, paths) for each in wanted)
        return [pattern for files, pattern in read if number in files]

    names = meant(selection.named.get("func", ()))
    sources = [path_test(each) for each in meant(selection.named.get("source", ()))]
    excluded = meant(selection.exclude)

    def wanted(name: Name) -> bool:
        if any(_is_called(pattern, name) for pattern in excluded):
            return False
        called = any(_is_called(pattern, name) for pattern in names)
        return called or any(is_named(name.file) for is_named in sources)

    return wanted


def settle(
    error: NoMatchError, images: Sequence[Image], selection: Selection, asked: str, pattern: str
) -> None:
    """Raise ``error``, that a value of the option ``asked`` means no function, unless it means
    copies that are traced. It says what to do where there are some, or the file is stripped."""
    copies: list[Inlined] = []
    if asked != "within":
        with suppress(BinaryError):  # there is no debug information
            found = find_copies(images, replace(selection, named={asked: (pattern,)}))
            copies = [copy for each in found for copy in each]
    stripped = [i for i in images if not (i.has_symbol_table or debugfile.search(i).found)]
    if copies:
        if selection.inlined:
            return
        places = some(list(dict.fromkeys(demangle.short(copy.within) for copy in copies)))
        error.advise(f"it was inlined in {places}: add {option('inlined')}")
    elif stripped and not error.hint.startswith(LIBRARY):
        what = f"{stripped[0].path} is stripped, so only what it exports has a name"
        later = LATER if selection.loads_later else ""
        error.advise(f"{what}: {debugfile.advice(stripped[0])}{later}")
    raise error


def _is_called(pattern: str, name: Name) -> bool:
    if patterns.means(pattern, name.symbol, name.plain):
        return True
    # Go writes packages and receivers with dots, which names in symbols of others have not.
    return "." in name.plain and go_names.has_end(name.plain, pattern)
