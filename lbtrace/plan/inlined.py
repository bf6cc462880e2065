"""Plans points where functions were inlined: ``--inlined``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from lbtrace.dwarf.inlined import Inlined, Name, find_inlined
from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.sources import PathTest, path_test
from lbtrace.elf import cpp_names, debugfile, demangle, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, LbtraceError, NoMatchError, option
from lbtrace.model import Plan
from lbtrace.plan import function_choice, patterns, source_files
from lbtrace.plan.found import Item, add_items
from lbtrace.plan.go import names as go_names
from lbtrace.plan.point_probes import Point, PointPlanner, refuse_returns
from lbtrace.plan.selection import Selection
from lbtrace.plan.traced_functions import ALSO
from lbtrace.plan.unmatched import LIBRARY
from lbtrace.plan.value_selection import depth, qualifies
from lbtrace.plan.warnings import some

NONE = "no copies of the functions are inlined"


class Copies:
    """Where the functions that a selection names were inlined: ``found`` has those of each image.

    Raises `BinaryError` where no image has debug information.
    """

    def __init__(self, images: Sequence[Image], selection: Selection) -> None:
        self._images = images
        self._selection = selection
        self._inlined: set[str] = set()
        self.found: list[list[Inlined]] = []
        errors: list[BinaryError] = []
        paths = [image.path for image in images]
        words = [patterns.kept_word(patterns.addressed(p, paths)[1]) for p in selection.patterns]
        for number, image in enumerate(images):
            copies: list[Inlined] = []
            try:
                lines = SourceLines(
                    image,
                    depth(selection.values),
                    qualified=qualifies(selection.values),
                    full_names=selection.full_names,
                )
                if selection.named.get("source") or any(map(lines.may_name, words)):
                    copies = find_inlined(lines, self._test(number))
            except BinaryError as error:
                errors.append(error)
            self.found.append(copies)
        if errors and len(errors) == len(images):
            raise errors[0]

    def _test(self, number: int) -> Callable[[Name], bool]:
        """A predicate whether a function of an image is selected."""
        paths = [image.path for image in self._images]
        tests: list[tuple[str, Callable[[Name], bool]]] = []
        for each in self._selection.patterns:
            meant, pattern = patterns.addressed(each, paths)
            if number in meant:
                tests.append((each, partial(_is_called, pattern)))
        for each in self._selection.named.get("source", ()):
            meant, pattern = patterns.addressed(each, paths)
            if number in meant:
                tests.append((each, partial(_is_defined, path_test(pattern))))

        excluded = [
            pattern
            for meant, pattern in (
                patterns.addressed(each, paths) for each in self._selection.exclude
            )
            if number in meant
        ]

        def wanted(name: Name) -> bool:
            if any(_is_called(pattern, name) for pattern in excluded):
                return False
            chosen = [each for each, test in tests if test(name)]
            self._inlined.update(chosen)
            return bool(chosen)

        return wanted

    def with_calls(self) -> Selection:
        """Return the selection without what was inlined everywhere, and has no calls."""
        tables = [image.once(symbols.read) for image in self._images]
        named = [
            patterns.BinarySymbols(image.path, table)
            for image, table in zip(self._images, tables, strict=True)
        ]

        def by_name(pattern: str) -> object:
            return function_choice.select(named, [pattern])

        def by_source(pattern: str) -> object:
            return source_files.select(self._images, tables, [pattern])

        def kept(each: str, select: Callable[[str], object]) -> bool:
            if each not in self._inlined:
                return True
            try:
                select(each)
            except NoMatchError:
                return False
            return True

        chosen = self._selection
        return replace(
            chosen,
            patterns=tuple(each for each in chosen.patterns if kept(each, by_name)),
            named=chosen.naming(
                source=[each for each in chosen.named.get("source", ()) if kept(each, by_source)]
            ),
        )

    def add(self, plan: Plan) -> Plan:
        """Return ``plan`` with a point where each copy begins. Raises `UsageError`."""
        notes = tuple(note for note in plan.notes if ALSO not in note)  # which are shown now
        errors = list[LbtraceError]()
        plan = replace(plan, notes=notes)
        made = add_items(plan, self._images, self._selection, self._points(), errors)
        if errors and not made.functions:
            raise errors[0]
        return made

    def _points(self) -> Iterator[Item]:
        selection = self._selection
        refuse_returns(selection, f"{option('inlined')} sees")
        for binary, (image, copies) in enumerate(zip(self._images, self.found, strict=True)):
            planner = PointPlanner(image, binary, selection, "function")
            for copy in copies:
                title = demangle.short(copy.name)
                title = title if selection.full_names else cpp_names.shorten(title)
                shown = copy.parameters if selection.request else copy.parameters[: selection.args]
                if made := planner.plan(Point(title, copy.address, shown)):
                    yield made
            yield planner.report()
        if not any(self.found):
            yield NONE


def advise(error: NoMatchError, images: Sequence[Image], selection: Selection) -> None:
    """Have ``error``, that a pattern of ``selection`` matches no function, say what to do if the
    function was inlined everywhere, or the file is stripped."""
    name = str(error).partition(": ")[0]  # of Go in full
    failed = tuple(each for each in selection.patterns if name.endswith(each))
    copies: list[Inlined] = []
    with suppress(BinaryError):  # there is no debug information
        chosen = Copies(images, replace(selection, patterns=failed, named={}))
        copies = [copy for found in chosen.found for copy in found]
    if copies:
        places = some(list(dict.fromkeys(demangle.short(copy.within) for copy in copies)))
        error.advise(f"it was inlined in {places}: add {option('inlined')}")
        return
    stripped = [i for i in images if not (i.has_symbol_table or debugfile.search(i).found)]
    if stripped and not error.hint.startswith(LIBRARY):
        what = f"{stripped[0].path} is stripped, so only what it exports has a name"
        error.advise(f"{what}: {debugfile.advice(stripped[0])}")


def _is_called(pattern: str, name: Name) -> bool:
    if patterns.means(pattern, name.symbol, name.plain):
        return True
    # Go writes packages and receivers with dots, which names in symbols of others have not.
    return "." in name.plain and go_names.has_end(name.plain, pattern)


def _is_defined(wanted: PathTest, name: Name) -> bool:
    return wanted(name.file)
