"""Functions of which LLVM may have lost where their parameters are at entry.

Between the variables of an optimised function and its first instruction it loses all but those that
are described last, if these are in memory that the function does not have any more: a parameter for
which nothing is passed, or the variable that a function returns by writing it where its caller
wants the result. A location that is left then is of something that is assigned to a parameter.
Seen with LLVM 22.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lbtrace.dwarf.attributes import origins, type_of
from lbtrace.dwarf.parameters import lies_in_memory
from lbtrace.model import Formal


def may_be_lost(
    die: Any, formals: Sequence[tuple[Any, Any]], parameters: Sequence[Formal], result: Formal
) -> bool:
    """Return whether locations of the ``parameters`` of a function, which are ``formals`` in debug
    information, may be missing."""
    last = formals[-1][1] if formals else None
    if formals and not _is_located(last) and _is_in_memory(parameters[-1]):
        return True
    if not _is_in_memory(result):
        return False
    returned = _type_of(die)
    return any(
        not _is_located(each) and _type_of(each) == returned
        for each in die.iter_children()
        if each.tag == "DW_TAG_variable"
    )


def _is_located(die: Any) -> bool:
    return die is not None and "DW_AT_location" in die.attributes


def _is_in_memory(formal: Formal) -> bool:
    return formal.reference or lies_in_memory(formal)


def _type_of(die: Any) -> int:
    """Where debug information has the type of a variable, or of a function's result."""
    typed = next((d for d in origins(die) if "DW_AT_type" in d.attributes), None)
    found = type_of(typed) if typed is not None else None
    return found.offset if found is not None else -1
