"""Which compiler made a unit, and its version where that decides how values are passed."""

from __future__ import annotations

import re

CLANG = re.compile(r"clang version (\d+)\.")
RUSTC = re.compile(r"rustc version 1\.(\d+)\.")

MICROSOFT = re.compile(r"^GNU .* -mabi=ms\b")
"""What gcc notes that was asked to use another convention throughout (``-mabi=ms``)."""

LEVEL = re.compile(r" -O(\S*)")
"""Levels of optimisation, among the options that gcc notes."""

GCC = re.compile(r"^GNU \S+ (\d+)\.")
MARKS_DEFAULTED = 7, 5
"""The versions of gcc and DWARF from which on member functions are marked that are defaulted. gcc
does so in older DWARF as well, unless it is asked not to extend it."""

STRICT = re.compile(r" -gstrict-dwarf( |$)")

DW_CC_LLVM_WIN64 = 0xC1

BUNDLED = ((87, 20), (78, 18), (70, 16))
"""Minor versions of rustc from which on it comes with these of LLVM."""

OLDER = 15

NEWEST = 1 << 16
"""Stands for unknown versions."""


def rustc(producer: str) -> int:
    """Return the minor version of the rustc that ``DW_AT_producer`` names."""
    found = RUSTC.search(producer)
    return int(found[1]) if found else NEWEST


def llvm(producer: str) -> int:
    """Return the version of LLVM in what ``DW_AT_producer`` names."""
    if found := CLANG.search(producer):
        return int(found[1])
    minor = rustc(producer)
    return next((own for since, own in BUNDLED if minor >= since), OLDER)


def default_convention(producer: str) -> int:
    """Return the ``DW_AT_calling_convention`` of functions that have none, or 0."""
    return DW_CC_LLVM_WIN64 if MICROSOFT.search(producer) else 0


def is_go(producer: str) -> bool:
    """Return whether Go's own compiler made the unit."""
    return producer.startswith("Go cmd/compile")


def optimises_go(producer: str) -> bool:
    """Return whether Go's own compiler made the unit, and notes no ``-N`` among its options."""
    _, _, options = producer.partition(";")
    return is_go(producer) and "-N" not in options.split()


def optimises(producer: str) -> bool:
    """Return whether a unit may be optimised: not where gcc has noted its options, and none of them
    asks for that."""
    if not producer.startswith("GNU ") or " -" not in producer:
        return True
    levels = LEVEL.findall(producer)
    return bool(levels) and levels[-1] != "0"


def marks_defaulted(producer: str, dwarf: int) -> bool:
    """Return whether a unit in this version of DWARF certainly marks the member functions that are
    defaulted (``DW_AT_defaulted``), as clang never does."""
    gcc, since = MARKS_DEFAULTED
    found = GCC.search(producer)
    if found is None or int(found[1]) < gcc:
        return False
    return dwarf >= since or (" -" in producer and STRICT.search(producer) is None)
