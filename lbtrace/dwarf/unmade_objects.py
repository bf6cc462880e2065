"""Objects whose class is not what their first word says: those that a constructor is about to make,
or a destructor to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from lbtrace.dwarf import attributes
from lbtrace.model import Formal


def without_class(chain: Sequence[Any], parameters: tuple[Formal, ...]) -> tuple[Formal, ...]:
    """Return the parameters of a function with these entries; of ``this`` no class is shown where
    it is a constructor or destructor."""
    first = parameters[0] if parameters else None
    if first is None or first.name != "this":
        return parameters
    without = first.type.without_class()
    if without is first.type or not _makes_or_ends(chain):
        return parameters
    return (replace(first, type=without), *parameters[1:])


def _makes_or_ends(chain: Sequence[Any]) -> bool:
    name = next(filter(None, (attributes.text(die, "DW_AT_name") for die in chain)), "")
    this = next(
        (d for die in reversed(chain) for d in die.iter_children() if d.has("DW_AT_artificial")),
        None,
    )
    pointer = None if this is None else attributes.bare(attributes.type_of(this))
    target = None if pointer is None else attributes.bare(attributes.type_of(pointer))
    if name.startswith("~") or target is None:
        return True
    return name == attributes.text(target, "DW_AT_name").partition("<")[0]
