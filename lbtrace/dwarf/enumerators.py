"""Constants of the enumerations of a program, by name, whatever the types of a function are."""

from __future__ import annotations

from contextlib import suppress

from lbtrace.dwarf import attributes
from lbtrace.dwarf.definitions import units_with
from lbtrace.dwarf.enclosing import constant_scopes
from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.dwarf.sources import DAMAGE, MOST, open_debug_information
from lbtrace.elf.image import Image


def find_enumerators(image: Image, name: str) -> dict[int, str]:
    """Return the numbers for which ``name`` stands, each with a qualified name of the constant:
    ``FLAG``, ``Color::RED``. Raises `BinaryError`, `BudgetExceeded`."""
    scope, _, last = name.removeprefix("::").rpartition("::")
    found: dict[int, str] = {}
    file, companions = open_debug_information(image, Budget(MOST))
    for light in units_with(file, last.encode()):
        with suppress(*DAMAGE):
            unit = companions.whole(light)
            for entry in unit.tagged("DW_TAG_enumeration_type"):
                for child in entry.iter_children():
                    if attributes.text(child, "DW_AT_name") != last:
                        continue
                    scopes = constant_scopes(entry)
                    fits = [s for s in scopes if f"::{s}".endswith(f"::{scope}") or not scope]
                    if scope and not fits:
                        continue
                    number = attributes.number(child, "DW_AT_const_value", 0)
                    found.setdefault(number, "::".join(filter(None, [*fits[:1], last])))
    return found
