"""The files that debug information refers to: split units, and what files have in common.

Sources: DWARF 5, sections 7.3.2, 7.3.5 and 7.3.6; for ``.gnu_debugaltlink`` dwz(1).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import NamedTuple

from lbtrace.elf.debuginfo.bounds import Budget, DwarfError
from lbtrace.elf.debuginfo.entries import Unit
from lbtrace.elf.debuginfo.files import File
from lbtrace.elf.debuginfo.forms import uleb
from lbtrace.elf.debuginfo.sections import Sections
from lbtrace.elf.debuginfo.split import (
    Numbers,
    Package,
    SplitFile,
    identity_of,
    linked,
    split_name,
)


class Companions:
    """What belongs to the debug information at ``path`` of the program at ``program``.

    ``root`` is the directory of separate debug files. ``missing`` lists the
    files that were asked for and not found.
    """

    def __init__(self, program: str, path: str, root: str, budget: Budget) -> None:
        self._program = program
        self._path = path
        self._root = root
        self._budget = budget
        self._numbers = Numbers()
        self._packages: list[Package] | None = None
        self.missing: dict[str, None] = {}

    def open(self, sections: Sections) -> File:
        """The debug information itself."""

        def partner() -> File | None:
            return self._supplementary(sections)

        return File(sections, self._budget, partner=partner)

    def whole(self, unit: Unit) -> Unit:
        """The unit that was split from ``unit``, or itself if none was.

        Raises `DwarfError` if it is not there.
        """
        name = split_name(unit)
        if not name:
            return unit
        identity = identity_of(unit)
        for package in self._opened_packages():
            if package.holds(identity):
                return linked(package.unit(identity), unit, identity)
        for path in self._split_paths(unit, name):
            try:
                sections = Sections(_mapped(path))
            except OSError:
                continue
            file = SplitFile(sections, self._budget, self._numbers.next())
            return linked(file, unit, identity)
        self.missing[name] = None
        raise DwarfError(f"{name} is missing")

    def _split_paths(self, unit: Unit, name: str) -> Iterator[str]:
        root = unit.root
        if root.has("DW_AT_comp_dir"):
            built = root.get("DW_AT_comp_dir").value.decode("utf-8", "surrogateescape")
            yield os.path.join(built, name)
        here = os.path.dirname(os.path.realpath(self._program))
        yield os.path.join(here, name)
        yield os.path.join(here, os.path.basename(name))

    def _opened_packages(self) -> list[Package]:
        if self._packages is None:
            self._packages = []
            for path in dict.fromkeys((self._program, self._path)):
                try:
                    sections = Sections(_mapped(f"{os.path.realpath(path)}.dwp"))
                except OSError:
                    continue
                self._packages.append(Package(sections, self._budget, self._numbers))
        return self._packages

    def _supplementary(self, sections: Sections) -> File | None:
        """The file that dwz(1) moved into what several files have in common."""
        name, build_id = _link(sections)
        if not name:
            return None
        identity = build_id.hex()
        here = os.path.dirname(os.path.realpath(self._path))
        by_id = f"{self._root}/.build-id/{identity[:2]}/{identity[2:]}.debug"
        for path in (os.path.join(here, name), by_id):
            try:
                found = Sections(_mapped(path))
            except OSError:
                continue
            told = _supplement(found)
            if build_id == (told.checksum if told.supplementary else found.build_id):
                return File(found, self._budget, self._numbers.next())
        self.missing[name] = None
        return None


class _Supplement(NamedTuple):
    """What ``.debug_sup`` says: of which file, or that this is one."""

    supplementary: bool
    name: bytes
    checksum: bytes


def _link(sections: Sections) -> tuple[str, bytes]:
    """The name and the identity of the supplementary file, or nothing."""
    link = sections.get(".gnu_debugaltlink")
    if link.size:
        name = link.string(0)
        return os.fsdecode(name), link.cut(len(name) + 1, link.size)
    told = _supplement(sections)
    return ("", b"") if told.supplementary else (os.fsdecode(told.name), told.checksum)


def _supplement(sections: Sections) -> _Supplement:
    section = sections.get(".debug_sup")
    if section.size < 5:
        return _Supplement(False, b"", b"")
    name = section.string(3)
    raw = section.cut(3 + len(name) + 1, section.size)
    size, at = uleb(raw, 0)
    return _Supplement(bool(section.number(2, 1)), name, raw[at : at + size])


def _mapped(path: str) -> mmap.mmap:
    """Raises `OSError` if there is no such file."""
    with open(path, "rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # empty
            raise OSError(f"{path} is empty") from None
