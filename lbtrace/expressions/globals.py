"""Global variables, by their names: where they lie, or why they are not known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lbtrace.expressions.operands import Operand, Scope
from lbtrace.expressions.tree import ExpressionError

if TYPE_CHECKING:
    from lbtrace.dwarf.global_variables import GlobalVariable

LISTED = 4
"""Names that an error lists, at most."""


def find_global(at: int, name: str, scope: Scope) -> Operand | None:
    """Return the global variable that ``name`` means; None where there is none. Raises
    `ExpressionError` where there are several."""
    if scope.names.globals is None:
        return None
    found = scope.names.globals.find(name)
    if len(found) > 1:
        raise _ambiguous(at, name, found)
    if not found:
        return None
    return Operand(at, found[0].type, found[0].location, "entry")


def unknown_global(at: int, name: str, scope: Scope) -> ExpressionError:
    """Return what is wrong where no global variable is called ``name``."""
    from difflib import get_close_matches  # imported here because only a wrong name needs it

    known: dict[str, str] = {}
    for each in scope.names.globals.names() if scope.names.globals else ():
        known.setdefault(each.rpartition("::")[2], each)
    last = name.rpartition("::")[2]
    near = get_close_matches(last, known, LISTED, 0.6)
    hint = "list those of the file: nm FILE"
    if near:
        hint = f"near it: {', '.join(_written(known[each]) for each in near)}"
    return ExpressionError(at, f"there is no global variable {name}", hint)


def _written(name: str) -> str:
    return name if "::" in name or "." in name else f"::{name}"


def _ambiguous(at: int, name: str, found: Sequence[GlobalVariable]) -> ExpressionError:
    path = name.partition("::")[2] if "." in name.partition("::")[0] else name.removeprefix("::")
    files = [f"{os.path.basename(each.file)}::{path}" for each in found if each.file]
    names = [each.name for each in found]
    distinct = names if len({*names}) == len(names) else files
    shown = ", ".join(dict.fromkeys(distinct[:LISTED])) + ", …" * (len(found) > LISTED)
    hint = f"name one: {shown}" if shown else "debug information tells them apart: build with -g"
    return ExpressionError(at, f"there are {len(found)} variables called {name}", hint)
