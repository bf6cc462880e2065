"""What a name stands for in a given function: its values, what is known of every call, a constant,
a register, a global variable."""

from __future__ import annotations

import re

from lbtrace.abi.locations import Location
from lbtrace.errors import option
from lbtrace.expressions.constants import ambiguous_constant, find_constants, unknown_constant
from lbtrace.expressions.globals import global_called, named_global
from lbtrace.expressions.hints import IN_A_SHELL
from lbtrace.expressions.operands import (
    PSEUDO,
    Constant,
    Located,
    Operand,
    Pseudo,
    Scope,
)
from lbtrace.expressions.own_values import own_value
from lbtrace.expressions.tree import TIMES_OFF_CPU, ExpressionError, Name
from lbtrace.expressions.unsuited import how_to_name
from lbtrace.model import LONG, Fetch, Type
from lbtrace.values.pointer import ADDRESS


def named(node: Name, scope: Scope) -> Located:
    """Return what is called so. Raises `ExpressionError` where nothing is."""
    if node.name in PSEUDO:
        return Pseudo(node.at, node.name)  # type: ignore[arg-type]
    if node.name in ("NULL", "nullptr", "false", "true"):
        return Constant(node.at, int(node.name == "true"))
    if (found := own_value(node, scope)) is not None:
        return found
    if node.name.startswith("arg") and node.name[3:].isdecimal():
        return _numbered_argument(node, scope)
    return _outside_name(node, scope)


def _numbered_argument(node: Name, scope: Scope) -> Operand:
    number = int(node.name[3:])
    if number < len(scope.arguments):
        _, type, place = scope.arguments[number]
        return Operand(node.at, type, place, scope.moment)
    last = len(scope.arguments) - 1
    known = f"are arg0 to arg{last}" if last > 0 else "is arg0 alone" if last == 0 else "is none"
    what = f"there is no argument {number}"
    raise ExpressionError(node.at, what, f"there {known}", lacks_name=True)


def _outside_name(node: Name, scope: Scope) -> Located:
    """What is named that is no value of the function: a constant of an enumeration, a register."""
    types = [_referred(type) for _, type, _ in (*scope.arguments, ("", *scope.result))]
    if (compared := scope.compared) is not None and compared.constants():
        types = [compared]
    if found := find_constants(node.name, types):
        return _constant(node, found)
    if node.name in scope.names.registers and (scope.names.stand_alone or node.name in POINTS_AT):
        type = ADDRESS if node.name in ADDRESSES else LONG
        return Operand(node.at, type, Location(words=(Fetch(register=node.name),)))
    if compared is not None and compared.constants():
        raise unknown_constant(node.at, node.name, compared)
    if compared is not None and compared.computes and scope.names.globals is not None:
        found = {**scope.names.globals.enumerators(node.name)}
    if found:
        return _constant(node, found)
    if (found_global := named_global(node, scope)) is not None:
        return found_global
    if compared is not None and compared.computes and _ERROR.fullmatch(node.name):
        import errno  # imported here because few name an error

        if number := getattr(errno, node.name, 0):
            return Constant(node.at, number)
    what = f"{node.name} is not known"
    hint = global_called(node.name, scope) or _explain_names(node.name, scope)
    if node.name in TIMES_OFF_CPU and not scope.names.off_cpu:
        hint = f"{option('off_cpu')} measures that, of calls on threads"
    raise ExpressionError(node.at, what, hint, lacks_name=True)


def _constant(node: Name, found: dict[int, str]) -> Constant:
    if len(found) > 1:
        raise ambiguous_constant(node.at, node.name, found)
    return Constant(node.at, next(iter(found)))


def _referred(type: Type) -> Type:
    """The type of the value that a reference stands for, if ``type`` is one."""
    return type.target if type.is_alias() and type.target is not None else type


_ERROR = re.compile(r"E[A-Z0-9]+")
"""The names of errors (errno(3)): ``retval == -ENOENT``."""

POINTS_AT = frozenset({"ip", "pc"})
"""Registers that hold where a probe is, which no variable is needed for."""

ADDRESSES = frozenset({*POINTS_AT, "sp"})
"""Registers that hold nothing but addresses."""


def _explain_names(name: str, scope: Scope) -> str:
    """What may be named, as a hint, where it is not ``name``."""
    known = [name for name, _, _ in scope.arguments if name]
    known += ["retval"] * (scope.names.retval or scope.names.lasting is not None)
    known += ["pid", "tid", "comm", "duration"] * (scope.of_events or scope.of_keys)
    known += ["func"] * scope.of_keys
    known += [*TIMES_OFF_CPU] * (scope.of_events and scope.names.off_cpu)
    first, part = scope.names.registers[0], ""
    if scope.names.stand_alone:
        known.append(f"the registers {', '.join(scope.names.registers)}")
        part = f", a part of one is cast: (int){first}"
    if not known:
        return f'no variable is known here; registers are: reg("{first}")'
    are = "are" if len(known) > 1 or scope.names.stand_alone else "is"
    text = 'text is quoted: "abc"'
    if scope.compared is not None:
        text = how_to_name(scope.compared)
        if _holds_text(scope.compared):
            text = f'text is quoted: "{name}"{IN_A_SHELL}'
    return f"there {are} {', '.join(known)}{part}; {text}"


def _holds_text(type: Type) -> bool:
    """Whether values of a type are compared with text."""
    first = type.element_at(0)
    return type.is_text() or (first is not None and first.type.is_char())
