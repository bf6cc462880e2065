"""What types lie in: the namespaces and classes that qualify their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lbtrace.dwarf import attributes

NAMING = frozenset({"DW_TAG_namespace", "DW_TAG_enumeration_type", *attributes.RECORDS})
"""Entries whose names qualify those of what they hold. A function's does not."""


def constant_scopes(die: Any) -> tuple[str, ...]:
    """Return what C++ and Rust write before the constants of the enumeration that ``die`` is, fully
    qualified: its name, that of a typedef of it, and where it is unscoped also the namespace or
    class around it, which is empty where that is none."""
    found: dict[str, None] = {}
    while die.tag in attributes.TRANSPARENT:
        if die.tag == "DW_TAG_typedef":
            found.update(dict.fromkeys(_qualified(_around(die), die)))
        die = attributes.type_of(die)
    around = _around(die)
    if attributes.text(die, "DW_AT_name"):
        found.update(dict.fromkeys(_qualified(around, die)))
    if "DW_AT_enum_class" not in die.attributes:
        found.update(dict.fromkeys(_qualified(around)))
    return tuple(found)


def qualified_name(die: Any) -> str:
    """Return the name of what ``die`` is, with what it lies in."""
    return next(_qualified(_around(die), die))


ANONYMOUS = "(anonymous namespace)"


def function_scopes(level: Any, around: str = "") -> Iterator[tuple[int, str]]:
    """Yield the offsets of the functions in the namespaces and classes below ``level``, each with
    what qualifies its name: ``space::Thing::``."""
    for child in level.iter_children():
        if child.tag == "DW_TAG_subprogram" and around:
            yield child.offset, around
        elif child.tag in NAMING:
            unnamed = ANONYMOUS if child.tag == "DW_TAG_namespace" else ""
            name = attributes.text(child, "DW_AT_name") or unnamed
            yield from function_scopes(child, f"{around}{name}::" if name else around)


def _qualified(around: list[Any], *last: Any) -> Iterator[str]:
    """The names of entries, each in the one before: all, and without inline namespaces."""
    names = [(each, attributes.text(each, "DW_AT_name")) for each in (*around, *last)]
    plain = [(each, name.partition("<")[0]) for each, name in names if name]
    yield "::".join(name for _, name in plain)
    yield "::".join(name for each, name in plain if "DW_AT_export_symbols" not in each.attributes)


def _around(die: Any) -> list[Any]:
    """The entries around ``die`` that qualify its name, the outermost first."""
    found: list[Any] = []
    level: Any = die.unit.root
    while level is not None:
        inner = None
        for child in level.iter_children():
            if child.position == die.position:
                return found
            if child.position > die.position:
                break
            inner = child
        level = inner
        found = [*found, inner] if inner is not None and inner.tag in NAMING else []
    return found
