"""Which files the dynamic loader maps into a process with a program.

They are searched as ld.so(8) says: DT_RPATH of the file that needs them and of those that loaded
it, LD_LIBRARY_PATH, DT_RUNPATH, the cache of ldconfig(8), the default directories. Preloaded
libraries (environment, ``/etc/ld.so.preload``) are included. Libraries for newer processors
(``glibc-hwcaps``) are taken where there is no plain one: their names are the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.files import search_path
from lbtrace.system.lookups import note

PRELOADED = "/etc/ld.so.preload"
MUSL_PATHS = "/etc/ld-musl-{}.path"
MUSL_DIRECTORIES = ("/lib", "/usr/local/lib", "/usr/lib")

SCRIPTS = 5
"""Interpreters that are scripts themselves, at most: BINPRM_MAX_RECURSION, fs/exec.c."""

FILES = 2000
"""Files of one process, at most."""

_TOKEN = re.compile(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM))")


class Closure(Struct, frozen=True):
    """What a process maps when it has started: ``paths``, the program first, and the
    names of libraries that were not ``found``. ``program`` is the path of what runs in the end,
    with its links: of a script by ``env``, what that executes."""

    paths: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    program: str = ""


class _File(Struct):
    """A file of the process, with the directories it may be said to lie in (as it was found,
    and without symbolic links) and the paths of DT_RPATH that count for what it needs."""

    image: Image
    dynamic: Dynamic
    origins: tuple[str, ...]
    rpaths: tuple[str, ...]


def closure(
    path: str,
    environment: Mapping[str, str],
    *,
    more: Iterable[str] = (),
) -> Closure:
    """Return what is mapped with the program or library at ``path``, itself first; ``more`` are
    further libraries that the process will load. A script counts as its interpreter."""
    finder = _Finder(environment)
    program = interpreter(path)
    loaded = finder.add_path(program, ())
    if loaded is None:
        return Closure((), (path,))
    finder.machine = loaded.image.machine
    if loader := loaded.dynamic.interpreter:
        finder.add_path(loader, ())
        finder.musl = "ld-musl" in loader
        for name in _added(environment):
            finder.add(name, loaded)
    for library in more:
        finder.add_path(library, ())
    finder.load_all()
    return Closure(tuple(finder.files), tuple(finder.missing), _executed(path, program))


def _executed(path: str, program: str) -> str:
    """What runs in the end where ``program`` runs ``path``: not env(1) of a script's first line."""
    if os.path.basename(program) != "env" or path == program:
        return program
    try:
        name = _first_line(search_path.find(path))[1:2]
        return search_path.find(name[0]) if name else program
    except (BinaryError, OSError):
        return program


def _first_line(path: str) -> list[str]:
    """The words after ``#!`` in the first line of a file, if it has such. Raises `OSError`."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        line = file.read(256).splitlines()[:1]
    words = line[0][2:].split() if line and line[0].startswith(b"#!") else []
    return [*map(os.fsdecode, words)]


def interpreter(path: str) -> str:
    """Return the program that runs ``path``: itself, or that of the ``#!`` line (execve(2))."""
    try:
        found = search_path.find(path)
    except BinaryError:
        return path
    for _ in range(SCRIPTS):
        note(found)
        try:
            words = _first_line(found)
        except OSError:
            break
        if not words:
            break
        found = words[0]
    return found


def _added(environment: Mapping[str, str]) -> Iterator[str]:
    """Libraries that are loaded with every program: LD_PRELOAD, LD_AUDIT, ld.so.preload."""
    yield from re.split(r"[ :]+", environment.get("LD_PRELOAD", ""))
    yield from environment.get("LD_AUDIT", "").split(":")
    note(PRELOADED)
    try:
        with open(PRELOADED, encoding="utf-8", errors="surrogateescape") as file:
            yield from re.split(r"[ :\t\n]+", file.read(1 << 16))
    except OSError:
        return


class _Finder:
    """Loads files as ld.so would, breadth first."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.files: dict[str, _File] = {}
        self.missing: dict[str, None] = {}
        self.machine = os.uname().machine
        self.musl = False
        self._queue: list[_File] = []
        self._names: set[str] = set()
        self._cached: dict[str, str] | None = None
        path = environment.get("LD_LIBRARY_PATH", "")
        self._library_path = re.split("[:;]", path) if path else []

    def load_all(self) -> None:
        """Add the libraries that the known files need, and those that these need."""
        for file in self._queue:  # grows meanwhile
            for name in file.dynamic.needed:
                self.add(name, file)

    def add(self, name: str, by: _File) -> None:
        """Add the library ``name`` that ``by`` needs."""
        if not name or name in self._names or len(self.files) >= FILES:
            return
        self._names.add(name)
        rpaths = (*by.rpaths, *_expanded(by.dynamic.rpath, by.origins))
        for path in self._candidates(name, by, rpaths):
            note(path)
            if os.path.isfile(path) and self.add_path(path, rpaths) is not None:
                return
        self.missing[name] = None

    def add_path(self, path: str, rpaths: Sequence[str]) -> _File | None:
        """Add the file at ``path``; None where it is no file for this machine."""
        try:
            image = Image.open(path)
        except BinaryError:
            return None
        if image.machine != self.machine:
            return None
        real = os.path.realpath(path)
        origins = dict.fromkeys(map(os.path.dirname, (os.path.abspath(path), real)))
        file = _File(image, image.once(Dynamic), tuple(origins), tuple(rpaths))
        if real not in self.files:
            self.files[real] = file
            self._queue.append(file)
            self._names.add(file.dynamic.soname)
        return file

    def _candidates(self, name: str, by: _File, rpaths: Sequence[str]) -> Iterator[str]:
        if "/" in name:
            yield from _expanded(name, by.origins)
            return
        runpath = _expanded(by.dynamic.runpath, by.origins)
        before = [] if runpath else list(rpaths)
        directories = [*before, *self._library_path, *runpath]
        yield from (f"{directory or '.'}/{name}" for directory in directories)
        if not by.dynamic.without_defaults:
            if not self.musl and (cached := self._from_cache(name)):
                yield cached
            yield from (f"{directory}/{name}" for directory in self._defaults())
        for directory in directories:
            yield from _for_newer_processors(directory or ".", name)

    def _from_cache(self, name: str) -> str:
        if self._cached is None:
            self._cached = dict(search_path.cache_entries())
        return self._cached.get(name, "")

    def _defaults(self) -> Iterable[str]:
        if not self.musl:
            return search_path.standard_directories()
        note(MUSL_PATHS.format(self.machine))
        try:
            with open(MUSL_PATHS.format(self.machine), encoding="utf-8") as file:
                return [word for word in re.split("[:\n]", file.read(1 << 16)) if word]
        except (OSError, ValueError):
            return MUSL_DIRECTORIES


def _for_newer_processors(directory: str, name: str) -> Iterator[str]:
    base = f"{directory}/glibc-hwcaps"
    note(base)
    try:
        levels = sorted(os.listdir(base))
    except OSError:
        return
    yield from (f"{base}/{level}/{name}" for level in levels)


def _expanded(paths: str, origins: Sequence[str]) -> list[str]:
    """The directories of a search path, with its tokens replaced; ``$LIB`` is one of three."""
    if not paths:
        return []
    machine = os.uname().machine
    libraries = ("lib", "lib64", f"lib/{machine}-linux-gnu")
    found: dict[str, None] = {}
    for path in paths.split(":"):
        for origin, library in product(origins, libraries):
            words = {"ORIGIN": origin, "LIB": library, "PLATFORM": machine}
            found[_replaced(path, words)] = None
    return list(found)


def _replaced(path: str, words: Mapping[str, str]) -> str:
    return _TOKEN.sub(lambda match: words[match[1] or match[2]], path)
