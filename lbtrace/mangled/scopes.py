"""Namespaces and classes, which look alike in names."""

from __future__ import annotations

import re

from lbtrace.elf.cpp_names import shorten
from lbtrace.elf.demangle import Declaration

MEMBER_OPERATOR = re.compile(r"operator ?(=|\(\)|\[\]|->)$|operator (?!new\b|delete\b|co_await)\w")
"""Operators that only classes have: assignment, call, subscript, arrow, conversions (C++20, 12.4.3
to 12.4.6, 11.4.8.3)."""

NAMESPACES = ("", "std")

ANONYMOUS = "(anonymous namespace)"

NESTED = re.compile(r"_ZN([rVK]*[RO]?)(?:St)?")
"""What stands before the scopes of a name (Itanium C++ ABI, 5.1.3)."""

OF_CLASS = re.compile(r"[CD][0-4]|aS|cl|ix|pt|cv")
"""What names of constructors, destructors and such operators have after the class."""

LENGTH = re.compile(r"\d+")


def is_structor(declaration: Declaration) -> bool:
    """Return whether it is a constructor or a destructor."""
    last = declaration.scope.partition("<")[0].rpartition("::")[2]
    name = declaration.name.partition("<")[0]
    return bool(last) and name.removeprefix("~") == last


def is_method(declaration: Declaration) -> bool:
    """Return whether a function certainly has a ``this``."""
    member = declaration.scope and MEMBER_OPERATOR.match(declaration.name)
    return declaration.qualified or bool(member) or is_structor(declaration)


def is_namespace(declaration: Declaration) -> bool:
    """Return whether a function is certainly in no class."""
    scope = declaration.scope
    return shorten(scope) in NAMESPACES or scope.endswith(ANONYMOUS)


def mangled_scope(name: str, declaration: Declaration) -> str:
    """Return what a mangled name of a function has of the scope that it is in; empty where that is
    none, or has more than names."""
    begins = NESTED.match(name)
    if begins is None or not declaration.scope:
        return ""
    start = at = begins.end()
    for part in declaration.scope.removeprefix("std::").split("::"):
        length = LENGTH.match(name, at)
        at = length.end() + int(length[0]) if length else at
        if length is None or name[length.end() : at] != part:
            return ""
    return name[start:at]


def is_member(name: str, scope: str) -> bool | None:
    """Return whether a mangled ``name`` is that of a member which only a class has, ``scope`` being
    that class; None where it is no member of it, or a template, whose name is not read."""
    begins = NESTED.match(name)
    if begins is None or not name.startswith(scope, begins.end()):
        return None
    at = begins.end() + len(scope)
    if OF_CLASS.match(name, at):
        return True
    length = LENGTH.match(name, at)
    after = length.end() + int(length[0]) if length else len(name)
    return bool(begins[1]) if name[after : after + 1] in ("E", "B") else None
