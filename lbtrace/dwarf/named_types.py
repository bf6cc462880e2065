"""The types of a program, by name, wherever they are declared."""

from __future__ import annotations

from contextlib import suppress

from lbtrace.dwarf import attributes
from lbtrace.dwarf.definitions import units_with
from lbtrace.dwarf.enclosing import qualified_name
from lbtrace.dwarf.passing import Types
from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.dwarf.sources import DAMAGE, MOST, open_debug_information
from lbtrace.elf.image import Image
from lbtrace.model import Type

TAGS = frozenset({
    *("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"),
    *("DW_TAG_enumeration_type", "DW_TAG_typedef", "DW_TAG_base_type"),
})  # fmt: skip

UNITS = 8
"""Compilation units with such a type that are compared."""


def find_types(image: Image, name: str, depth: int, *, full_names: bool = False) -> list[Type]:
    """Return the types called ``name``, one of each size. Raises `BinaryError` and
    `BudgetExceeded`."""
    found: dict[int, Type] = {}
    wanted = name.removeprefix("::")
    last = wanted.rpartition("::")[2]
    file, companions = open_debug_information(image, Budget(MOST))
    left = UNITS
    for light in units_with(file, last.encode()):
        with suppress(*DAMAGE):
            unit = companions.whole(light)
            types = Types(unit.root, depth, image.machine, full_names=full_names)
            fitting = [
                types.type_of(entry)
                for tag in TAGS
                for entry in unit.tagged(tag)
                if attributes.text(entry, "DW_AT_name") == last
                and not entry.has("DW_AT_declaration")
                and f"::{qualified_name(entry)}".endswith(f"::{wanted}")
            ]
            for type in fitting:
                found.setdefault(type.size, type)
            left -= bool(fitting)
        if not left:
            break
    return [*found.values()]
