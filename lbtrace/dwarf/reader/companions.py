"""Opens the files that debug information refers to: split units and supplementary files.

Sources: DWARF 5, sections 7.3.2 and 7.3.5; for ``.gnu_debugaltlink`` dwz(1). What DWARF 5 has in
its place, ``.debug_sup``, is not read: dwz writes it only if asked to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from lbtrace.dwarf.reader.bounds import Budget, BudgetExceeded
from lbtrace.dwarf.reader.entries import Unit
from lbtrace.dwarf.reader.files import File
from lbtrace.dwarf.reader.split import (
    Numbers,
    Package,
    SplitFile,
    identity_of,
    linked,
    split_name,
)
from lbtrace.elf.debug_sections import DwarfError, Sections
from lbtrace.files.regular import map_regular


class Companions:
    """The companion files of the debug information at ``path`` of the program at ``program``.

    ``root`` is the directory of separate debug files. ``missing`` lists the
    files that were needed and not found.
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
        """Return the debug information itself."""

        def partner() -> File | None:
            return self._supplementary(sections)

        return File(sections, self._budget, partner=partner)

    def whole(self, unit: Unit) -> Unit:
        """Return the unit that was split from ``unit``, or itself if none was.

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
            self._budget.spend(50)
            try:
                sections = Sections(map_regular(path))
                file = SplitFile(sections, self._budget, self._numbers.next())
                return linked(file, unit, identity)
            except BudgetExceeded:
                raise
            except (OSError, DwarfError):  # not there, or of another build
                continue
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
                    sections = Sections(map_regular(f"{os.path.realpath(path)}.dwp"))
                except (OSError, DwarfError):
                    continue
                self._packages.append(Package(sections, self._budget, self._numbers))
        return self._packages

    def _supplementary(self, sections: Sections) -> File | None:
        """The supplementary file, into which dwz(1) moved what several files have in common."""
        name, build_id = _link(sections)
        if not name:
            return None
        identity = build_id.hex()
        here = os.path.dirname(os.path.realpath(self._path))
        by_id = f"{self._root}/.build-id/{identity[:2]}/{identity[2:]}.debug"
        for path in (os.path.join(here, name), by_id):
            try:
                found = Sections(map_regular(path))
            except (OSError, DwarfError):
                continue
            if build_id == found.build_id:
                return File(found, self._budget, self._numbers.next())
        self.missing[name] = None
        return None


def _link(sections: Sections) -> tuple[str, bytes]:
    """The name and the identity of the supplementary file, or nothing."""
    link = sections.get(".gnu_debugaltlink")
    if not link.size:
        return "", b""
    name = link.string(0)
    return os.fsdecode(name), link.cut(len(name) + 1, link.size)
