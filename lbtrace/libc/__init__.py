"""The functions of the C library: what they take and return, for files without debug information.

The tables are made by build/libc from the headers of glibc, one for each machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from lbtrace import syscalls
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.model import Formal, Function, Prototype, Scalar, Type
from lbtrace.syscalls import read_table
from lbtrace.system.procfs import read_bytes
from lbtrace.values.character import Character
from lbtrace.values.flags import Flags
from lbtrace.values.float import Float
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer

NAMES = re.compile(r"lib(c|m|pthread|rt|dl|resolv|util)\.so\.\d|libc\.musl-\w+\.so\.1")
"""What the files of C libraries call themselves."""

TEXT = re.compile(r"(const )?(char|__gchar_t) \*")


class Kind(Struct, frozen=True, array_like=True):
    """A type in C: whether it is an integer, a pointer, a float or void, and its size in bytes."""

    kind: str
    size: int
    signed: bool


class Declaration(Struct, frozen=True, array_like=True):
    """A function's result and its parameters' names and types; the last may be ``...``."""

    result: str
    parameters: tuple[tuple[str, str], ...]


class Table(Struct, frozen=True):
    """The types and functions, by name."""

    types: dict[str, Kind]
    functions: dict[str, Declaration]


def prototypes(image: Image, functions: Iterable[Function], machine: str) -> dict[int, Prototype]:
    """Return the prototypes of those of ``functions`` of a file that are public functions of the C
    library, by their addresses; none where the file is no such library."""
    if not NAMES.fullmatch(image.once(Dynamic).soname):
        return {}
    table = _read_table(machine)
    calls = read_table(machine)
    found = {}
    for function in functions:
        for name in (function.name, *function.aliases):
            plain = name.partition("@")[0]
            if declared := table.functions.get(plain):
                found[function.address] = _prototype(table, declared, calls, plain)
                break
    return found


def _read_table(machine: str) -> Table:
    path = os.path.join(os.path.dirname(__file__), "tables", f"{machine}.json")
    return msgspec.json.decode(read_bytes(path), type=Table)


def _prototype(table: Table, declared: Declaration, calls: syscalls.Table, name: str) -> Prototype:
    call = calls.calls.get(name)
    groups = [each.group for each in call.parameters] if call else []
    formals = []
    for number, (parameter, text) in enumerate(declared.parameters):
        if text != "...":
            group = calls.groups.get(groups[number]) if number < len(groups) else None
            formals.append(_formal(table, parameter, text, group))
    result = None if declared.result == "void" else _formal(table, "", declared.result)
    return Prototype(tuple(formals), result, exact=True, complete=True)


def _formal(table: Table, name: str, text: str, group: syscalls.Group | None = None) -> Formal:
    kind = table.types[text]
    scalar = Scalar(0, kind.size, "float" if kind.kind == "float" else "integer")
    return Formal(name, _type(text, kind, group), kind.size, (scalar,))


def _type(text: str, kind: Kind, group: syscalls.Group | None) -> Type:
    name = text.replace("__", "") if text.startswith("__") else text
    if kind.kind == "pointer":
        return Pointer(name, 8, Character("char", 1, True) if TEXT.fullmatch(text) else None)
    if kind.kind == "float":
        return Float(name, kind.size)
    if group:
        return Flags(name, kind.size, kind.signed, group.field, group.constants)
    return Integer(name, kind.size, kind.signed)
