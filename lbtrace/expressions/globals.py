"""Global variables, by their names: where they lie, or why they are not known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lbtrace.expressions.mistakes import unknown_type
from lbtrace.expressions.operands import Operand, Scope
from lbtrace.expressions.own_values import is_outside
from lbtrace.expressions.tree import ExpressionError, Field, Name, NamedType
from lbtrace.model import Type
from lbtrace.values.pointer import Pointer

if TYPE_CHECKING:
    from lbtrace.dwarf.global_variables import GlobalVariable, GlobalVariables

LISTED = 4
"""Names that an error lists, at most."""


def named_global(node: Name, scope: Scope) -> Operand | None:
    """Return the global variable that a name with ``::`` means; None where it may be a constant of
    an enumeration. Raises `ExpressionError`."""
    if "::" not in node.name or scope.names.globals is None:
        return None
    found = _found(node.at, node.name, scope.names.globals)
    if found is None and (node.name.startswith("::") or scope.compared is None):
        raise _unknown(node.at, node.name, scope.names.globals)
    return found


def global_called(name: str, scope: Scope) -> str:
    """Return a hint that names the global variable of that name, if there is one, else nothing."""
    known = scope.names.globals
    if known is None or not known.find(f"::{name}"):
        return ""
    return f"the global variable of that name is written ::{name}"


def of_package(node: Field, scope: Scope) -> Operand | None:
    """Return the global variable of Go that is written as a member of its package is, if it is
    one."""
    package, known = node.inner, scope.names.globals
    if known is None or not is_outside(package, scope):
        return None
    assert isinstance(package, Name)
    of = package.name.removeprefix("::")
    name = f"{of}.{node.name}"
    found = _found(package.at, name, known)
    if found is None and any(each.startswith(f"{of}.") for each in known.names):
        raise _unknown(package.at, name, known)
    return found


def of_program(named: NamedType, scope: Scope) -> Type:
    """Return the type of the program that a cast names. Raises `ExpressionError`."""
    found = scope.names.globals.types(named.name) if scope.names.globals is not None else ()
    if not found:
        raise unknown_type(named.at, named.name)
    if len(found) > 1:
        sizes = " and ".join(str(type.size) for type in found)
        what = f"there are {len(found)} types called {named.name}, of {sizes} bytes"
        raise ExpressionError(named.at, what, "cast to a type of C: *(int *)(p + 8)")
    (type,) = found
    if not named.stars and not type.computes:
        what = f"{type.name} is no number"
        raise ExpressionError(named.at, what, f"cast a pointer: *({type.name} *)p")
    for _ in range(named.stars):
        type = Pointer(f"{type.name}{'' if type.name.endswith('*') else ' '}*", 8, type)
    return type


def _found(at: int, name: str, known: GlobalVariables) -> Operand | None:
    found = known.find(name)
    if len(found) > 1:
        raise _ambiguous(at, name, found)
    return Operand(at, found[0].type, found[0].location, "entry") if found else None


def _unknown(at: int, name: str, globals: GlobalVariables) -> ExpressionError:
    from difflib import get_close_matches  # imported here because only a wrong name needs it

    known: dict[str, str] = {}
    for each in globals.names:
        known.setdefault(_last(each), each)
    near = get_close_matches(_last(name), known, LISTED, 0.6)
    hint = "list those of the file: nm FILE"
    if near:
        hint = f"near it: {', '.join(_written(known[each]) for each in near)}"
    return ExpressionError(at, f"there is no global variable {name}", hint)


def _last(name: str) -> str:
    return name.rpartition("::")[2].rpartition("/")[2]


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
