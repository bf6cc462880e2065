"""Which functions a source file defines, by the debug information."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from lbtrace.dwarf import attributes
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.bounds import Budget, BudgetExceeded
from lbtrace.dwarf.reader.companions import Companions
from lbtrace.dwarf.reader.entries import Entry, Unit
from lbtrace.dwarf.reader.files import INFO, File
from lbtrace.dwarf.reader.index import find_units
from lbtrace.dwarf.reader.line_tables import LineTable, line_table
from lbtrace.elf import debugfile
from lbtrace.elf.debug_sections import DwarfError, Sections
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, UsageError, option
from lbtrace.files import cache as files_cache

MOST = 40_000_000
"""Work that goes into a search of all units, roughly in microseconds."""

DAMAGE = (DwarfError, IndexError, KeyError, TypeError, ValueError, RecursionError)
"""What reading damaged debug information raises."""

PathTest = Callable[[str], bool]


class Defined(NamedTuple):
    """What was found: the addresses of functions that a file of a wanted name defines, the
    ``files`` of such names, and all ``paths`` of source files."""

    addresses: list[int]
    files: set[str]
    paths: set[str]


def path_test(pattern: str, asked: str = "source") -> PathTest:
    """Return a predicate whether a path ends as ``pattern``, a value of the option ``asked``, says:
    its last names match the names of the pattern, each a glob. A pattern between slashes is a
    regular expression for the whole path.

    Raises `UsageError` for one that cannot be compiled.
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            search = re.compile(pattern[1:-1]).search
        except re.error as error:
            raise UsageError(
                f"{option(asked, pattern)}: {error}",
                "write a Python regular expression between slashes",
            ) from None
        return lambda path: search(path) is not None
    names = pattern.removeprefix("./").split("/")
    tests = [re.compile(fnmatch.translate(name)).match for name in names]

    def matches(path: str) -> bool:
        own = path.split("/")[-len(tests) :]
        return len(own) == len(tests) and all(
            test(name) for test, name in zip(tests, own, strict=True)
        )

    return cache(matches)


def open_debug_information(image: Image, budget: Budget) -> tuple[File, Companions]:
    """Return the debug information of ``image``, and what opens the files that belong to it.

    Raises `BinaryError` where there is none, or it cannot be read.
    """
    debug = debugfile.find(image)
    if debug is None:
        raise BinaryError(
            f"{image.path}: has no debug information, so its source files are unknown",
            debugfile.advice(image),
        )
    companions = Companions(image.path, debug.path, debugfile.ROOT, budget)
    try:
        file = companions.open(Sections(debug.data, files_cache.of(debug.status)))
        file.section(INFO)  # it may be packed, and damaged
        return file, companions
    except DAMAGE as error:
        raise BinaryError(
            f"{debug.path}: its debug information is damaged: {error}", "build it again"
        ) from None


def units_with_code(file: File) -> Iterator[Unit]:
    """Yield the units of ``file``, without those of types; damaged ones are left out."""
    for header in file.headers():
        if not header.is_type:
            with suppress(*DAMAGE):
                yield Unit(file, header, whole=False)


def find_functions(image: Image, wanted: PathTest) -> Defined:
    """Return the functions with code of their own that files of a ``wanted`` path define.

    Raises `BinaryError` where ``image`` has no debug information.
    """
    budget = Budget(MOST)
    file, companions = open_debug_information(image, budget)
    found = Defined([], set(), set())
    finder = _Finder(wanted, found, file, companions)
    with suppress(BudgetExceeded):  # there is too much to read all of it
        for unit in units_with_code(file):
            try:
                finder.search(unit)
            except BudgetExceeded:
                raise
            except DAMAGE:  # the next may not be damaged
                continue
    return found


class Declared(NamedTuple):
    """The ``file`` and ``line`` that define a function; empty and 0 where nothing says it."""

    file: str
    line: int


UNKNOWN = Declared("", 0)


class Declarations:
    """Where functions are declared; remembers the source files of each unit."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[str, ...]] = {}

    def note(self, unit: Unit, table: LineTable) -> None:
        """Remember the files of a unit."""
        self._files[unit.file.place(unit.header)] = table.files

    def file_of(self, entry: Entry) -> str | None:
        """Return the file in which a function is defined, None where nothing says it."""
        found = _declaring(entry, "DW_AT_decl_file")
        if found is None:
            return None
        files, number = self._files_of(found.unit), found.get("DW_AT_decl_file").value
        return files[number] if number < len(files) else ""

    def _files_of(self, unit: Unit) -> tuple[str, ...]:
        key = unit.file.place(unit.header)
        if key not in self._files:
            table = line_table(unit)
            self._files[key] = table.files if table else ()
        return self._files[key]


def _declaring(entry: Entry, name: str) -> Entry | None:
    """The first of ``entry`` and those that it refers to that has this attribute."""
    return next((each for each in attributes.origins(entry) if each.has(name)), None)


def find_declared(image: Image, addresses: Iterable[int], budget: Budget) -> dict[int, Declared]:
    """Return where the functions at ``addresses`` are defined, as far as debug information says it,
    that can be read within ``budget``. Raises nothing."""
    found: dict[int, Declared] = {}
    with suppress(BinaryError, BudgetExceeded, *DAMAGE):
        file, companions = open_debug_information(image, budget)
        held: dict[int, set[int]] = {}
        for address, holder in find_units(file, sorted(addresses)).items():
            held.setdefault(holder, set()).add(address)
        for offset, wanted in held.items():
            with suppress(*DAMAGE):  # the next may not be damaged
                unit = file.unit_at(offset)
                found.update(_declared(companions.whole(unit), line_table(unit), wanted))
    return found


def _declared(
    unit: Unit, table: LineTable | None, wanted: set[int]
) -> Iterator[tuple[int, Declared]]:
    """The functions at ``wanted`` addresses in a unit, and where they are defined."""
    declarations = Declarations()
    if table is not None:
        declarations.note(unit, table)
    rows: list[tuple[int, Declared]] | None = None
    for entry in unit.functions(None):
        address = lists.entry_address(entry)
        if address not in wanted:
            continue
        file, line = declarations.file_of(entry), _declaring(entry, "DW_AT_decl_line")
        if file is not None:
            yield address, Declared(file, line.get("DW_AT_decl_line").value if line else 0)
        elif table is not None:  # as Go leaves it out of functions that are inlined elsewhere
            rows = starts(table) if rows is None else rows
            yield address, _at(rows, address)


class _Finder:
    """Searches units, and remembers the source files of each."""

    def __init__(
        self, wanted: PathTest, found: Defined, file: File, companions: Companions
    ) -> None:
        self._wanted = wanted
        self._found = found
        self._file = file
        self._companions = companions
        self._declarations = Declarations()

    def search(self, light: Unit) -> None:
        """Add what a unit defines, of which only the own entry was read so far."""
        table = line_table(light)
        if table is None:
            return
        meant = {path for path in table.files if self._wanted(path)}
        self._found.paths.update(table.files)
        self._found.files.update(meant)
        if not meant:
            return
        unit = self._companions.whole(self._file.unit_at(light.offset))
        self._declarations.note(unit, table)
        lines: list[tuple[int, Declared]] | None = None
        for entry in unit.functions(None):
            address = lists.entry_address(entry)
            if address is None:
                continue
            declared = self._declarations.file_of(entry)
            if declared is None:  # Go declares no file of functions that are inlined elsewhere
                lines = starts(table) if lines is None else lines
                declared = _at(lines, address).file
            if declared in meant:
                self._found.addresses.append(address)


def starts(table: LineTable) -> list[tuple[int, Declared]]:
    """Return the addresses of a line table in order, each with the file and line of its first row;
    unknown after a sequence."""
    files = table.files
    found: dict[int, Declared] = {}
    for row in table.rows():
        known = not row.end and row.file < len(files)
        if known and found.get(row.address, UNKNOWN) == UNKNOWN:
            found[row.address] = Declared(files[row.file], row.line)
        else:
            found.setdefault(row.address, UNKNOWN)
    return sorted(found.items())


def _at(lines: list[tuple[int, Declared]], address: int) -> Declared:
    from bisect import bisect_right  # imported here because few functions need it

    at = bisect_right(lines, address, key=itemgetter(0)) - 1
    return lines[at][1] if at >= 0 else UNKNOWN
