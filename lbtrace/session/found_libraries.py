"""Finds functions in what a process loads, where the traced program has none of such a name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf import debugfile, symbols
from lbtrace.elf.debug_sections import DwarfError, Sections
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError, TargetError
from lbtrace.files import cache
from lbtrace.model import Target
from lbtrace.naming import NAMING
from lbtrace.plan import patterns
from lbtrace.plan.functions import ALL, split_excluded, split_named
from lbtrace.plan.merge import distinct
from lbtrace.plan.selection import Selection
from lbtrace.session.request import Request
from lbtrace.targets.images import find_mapped_files, open_images
from lbtrace.text import some

LIBRARY = re.compile(r"lib\w|.*\.so\b")
"""What names of libraries begin with."""


class Library:
    """A file that is loaded, with its functions, which are read when they are first asked for."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.name = os.path.basename(image.once(Dynamic).soname or image.path)

    @cached_property
    def symbols(self) -> Symbols:
        """Its functions, by what is on this machine."""
        return symbols.read_any(self.image, servers=False)

    def is_called(self, name: str) -> bool:
        """Return whether a pattern may call it ``name``."""
        return any(patterns.is_called(path, name) for path in (self.image.path, self.name))

    def has(self, pattern: str) -> bool:
        """Return whether it has what a pattern means."""
        return _means(self.symbols, pattern)

    def exports(self, pattern: str) -> bool:
        """Return whether other files can call what a pattern means there."""
        found = patterns.find(self.symbols, pattern)
        return any(not function.local for function in found) or not found


class Found(NamedTuple):
    """The ``request`` with its patterns as they are to be read, the ``images`` to trace, and what
    to say."""

    request: Request
    images: list[Image]
    notes: list[str]


def find(request: Request) -> Found | None:
    """Look in what each process of a request loads for the functions that the files which it names
    do not have. None where none are found.

    Raises `LbtraceError`, as opening these files does.
    """
    each = [replace(request, target=target) for target in request.target.each()]
    found = [_find(own) for own in each]
    if not any(found):
        return None
    return merged(request, [f or _named(own) for f, own in zip(found, each, strict=True)])


def merged(request: Request, founds: Sequence[Found]) -> Found:
    """Return what was found for several processes of ``request`` together."""
    wanted = {
        name: tuple(dict.fromkeys(p for f in founds for p in getattr(f.request, name)))
        for name in ("patterns", "within")
    }
    images = distinct(image for found in founds for image in found.images)
    notes = dict.fromkeys(note for found in founds for note in found.notes)
    return Found(replace(request, **wanted), images, [*notes])


def _named(request: Request) -> Found:
    """The files that a request names."""
    opened = open_images(request.target, request.binaries)
    return Found(request, opened.images, opened.notes)


def _find(request: Request) -> Found | None:
    target = request.target
    functions = split_named(split_excluded(request.patterns, ())[0]).get("func", ())
    named = [each for each in (*functions, *request.within) if each != ALL]
    if not named:
        return None
    opened = open_images(target, request.binaries)
    tables = [symbols.read_any(image) for image in opened.images]
    paths = [image.path for image in opened.images]
    missing = [each for each in named if not _has(paths, tables, each)]
    around = find_mapped_files(target) if missing else None
    if around is None:
        return None
    search = _Search(open_libraries(target, around, opened.images), opened.images)
    instead = {each: read for each in missing if (read := search.look_for(each))}
    if not instead:
        return None
    has_more = any(NAMING[name].place != "kernel" for name in request.named)
    kept = [
        image
        for image, table in zip(opened.images, tables, strict=True)
        if has_more or any(_has([image.path], [table], each) for each in named)
    ]
    changed = replace(
        request,
        patterns=tuple(instead.get(each, each) for each in request.patterns),
        within=tuple(instead.get(each, each) for each in request.within),
    )
    return Found(changed, [*kept, *search.images], [*opened.notes, *search.notes])


def open_libraries(target: Target, around: Closure, known: Sequence[Image]) -> list[Library]:
    """Return the files that processes map but those that are ``known``, in the order in which the
    loader searches them."""
    identities = {image.file.identity for image in known}
    every = map(Library, distinct(_open(target, around)))
    libraries = [each for each in every if each.image.file.identity not in identities]
    # The loader has functions with names of the C library's, which programs do not call.
    return sorted(libraries, key=lambda each: each.name.startswith("ld"))


def _has(paths: Sequence[str], tables: Sequence[Symbols], pattern: str) -> bool:
    """Whether any of the files that a pattern is for has what it means."""
    meant, name = patterns.addressed(pattern, paths)
    return any(_means(tables[n], name) for n in meant)


def _means(table: Symbols, name: str) -> bool:
    return bool(patterns.find(table, name) or patterns.matching(table.ifuncs, [name]))


class _Search:
    """Looks in ``libraries``, and remembers those ``images`` that have something."""

    def __init__(self, libraries: Sequence[Library], programs: Sequence[Image]) -> None:
        self._libraries = libraries
        self._programs = programs
        self.images: list[Image] = []
        self.notes: list[str] = []

    def look_for(self, pattern: str) -> str:
        """Return how to name what a pattern means in the library that has it; empty where none
        has."""
        name, _, place = pattern.rpartition("@")
        named = [each for each in self._libraries if name and each.is_called(place)]
        moved = bool(name and LIBRARY.match(place)) and not any(each.has(name) for each in named)
        name = name if named or moved else pattern
        having = [each for each in named if each.has(name)]
        having = having or [each for each in self._libraries if each.has(name)] or named
        exporting = [each for each in having if each.exports(name)]
        own = not exporting or any(_may_declare(each, name) for each in self._programs)
        if not having or (own and not named and self._is_inlined(name)):
            return ""
        first, *others = exporting or having
        if first.image not in self.images:
            self.images.append(first.image)
        if moved or not named:
            where = f"{name}: found in {first.name}{f', not in {place}' if moved else ''}"
            also = [each.name for each in others]
            self.notes.append(f"{where} ({some(also)} has such functions, too)" if also else where)
        return f"{name}@{first.image.path}"

    def _is_inlined(self, name: str) -> bool:
        """Whether it is a function of the program that was inlined, and thus none of a library."""
        from lbtrace.plan.inlined import find_copies  # imported here because it reads a lot

        with suppress(BinaryError):
            return any(find_copies(self._programs, Selection(named={"func": (name,)})))
        return False


def _may_declare(image: Image, name: str) -> bool:
    """Whether debug information may have a function of that name which is not imported."""
    if not name.isidentifier() or name in image.once(Dynamic).imports:
        return False
    debug = debugfile.find(image)
    with suppress(DwarfError):
        sections = Sections(debug.data, cache.of(debug.status)) if debug else None
        raw = name.encode() + b"\0"
        return sections is not None and any(
            sections.get(section).find(raw, 1) for section in (".debug_str", ".debug_info")
        )
    return False


def _open(target: Target, around: Closure) -> Iterator[Image]:
    """The files that processes map, those that can be read, in the order of each one's loader."""
    for path in around.paths if not target.pids else ():
        with suppress(BinaryError):
            yield Image.open(path)
    for pid in target.pids:
        # Imported here because only running processes have mapped files, and an order of them.
        from lbtrace.targets.link_map import in_search_order
        from lbtrace.targets.mapped_files import open_mapped

        for path in in_search_order(pid, around.paths):
            with suppress(BinaryError, TargetError):
                yield open_mapped(pid, path).image
