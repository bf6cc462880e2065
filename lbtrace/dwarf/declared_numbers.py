"""How many parameters functions declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lbtrace.dwarf import attributes
from lbtrace.dwarf.attributes import origins
from lbtrace.elf import demangle


def leaves_out(chain: Sequence[Any], formals: Sequence[Any]) -> bool:
    """Return whether there are more parameters than ``formals``: clang says nothing of objects that
    are passed by reference and not used, in functions of C++ whose result is returned so."""
    mangled = attributes.linkage_name(chain)
    declared = demangle.arity(mangled) if mangled.startswith("_Z") else None
    shown = sum(
        not any("DW_AT_artificial" in d.attributes for d in origins(formal)) for formal in formals
    )
    return declared is not None and shown < declared


def declares_all(chain: Sequence[Any], language: str) -> bool:
    """Return whether a function takes no more than it declares: not those with ``...``, and those
    of C that are declared without parameters, or as before ANSI C."""
    if language == "c" and not any("DW_AT_prototyped" in d.attributes for d in chain):
        return False
    further = (c.tag == "DW_TAG_unspecified_parameters" for d in chain for c in d.iter_children())
    return language in ("c", "c++", "rust") and not any(further)
