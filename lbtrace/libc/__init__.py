"""The functions of the C library: what they take and return, for files without debug information.

The tables are made by build/libc from the headers of glibc, one for each machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import zip_longest

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from lbtrace.values.mode import Mode
from lbtrace.values.pointer import Pointer

NAMES = re.compile(r"lib(c|m|pthread|rt|dl|resolv|util)\.so\.\d|libc\.musl-\w+\.so\.1")
"""What the files of C libraries call themselves."""

LIKE = {
    "open": ("openat", 1), "open64": ("openat", 1), "openat64": ("openat", 0),
    "access": ("faccessat", 1), "send": ("sendto", 0), "recv": ("recvfrom", 0),
    "waitpid": ("wait4", 0), "eventfd": ("eventfd2", 0), "shm_open": ("mq_open", 0),
}  # fmt: skip
"""Functions whose parameters are those of a system call with another name, from one on."""

MODES = frozenset({"mode_t", "__mode_t"})
"""Types of modes of files."""

CHECKED = re.compile(r"__((?:|f|d|s|sn|as|obstack_)printf|syslog)_chk")
"""Functions that are called where a program was built with ``_FORTIFY_SOURCE``."""

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
    if not NAMES.fullmatch(image.once(Dynamic).library):
        return {}
    table = _read_table(machine)
    found = {}
    for function in functions:
        for name in (function.name, *function.aliases):
            plain = name.partition("@")[0]
            if declared := _declared(table, plain):
                found[function.address] = _prototype(table, declared)
                break
    return found


def name_constants(
    image: Image, functions: Iterable[Function], found: dict[int, Prototype], machine: str
) -> None:
    """Give names to the constants that wrappers of system calls take: headers of C have them as
    macros, which debug information does not know. Modes of files become octal."""
    if not NAMES.fullmatch(image.once(Dynamic).library):
        return
    table = read_table(machine)
    for function in functions:
        prototype = found.get(function.address)
        if prototype is None:
            continue
        names = (function.name, *function.aliases)
        called = next(filter(None, (_call(table, n.partition("@")[0]) for n in names)), ())
        groups = [table.groups.get(each.group) for each in called[: len(prototype.parameters)]]
        formals = [_named(*pair) for pair in zip_longest(prototype.parameters, groups)]
        result = prototype.result and _named(prototype.result, None)
        found[function.address] = replace(prototype, parameters=tuple(formals), result=result)


def _call(table: syscalls.Table, name: str) -> tuple[syscalls.Parameter, ...]:
    """The parameters of the system call that a function makes, as far as it has them."""
    known, first = LIKE.get(name, (name, 0))
    return table.calls[known].parameters[first:] if known in table.calls else ()


def _named(formal: Formal, group: syscalls.Group | None) -> Formal:
    type = formal.type
    if isinstance(type, Integer) and type.name in MODES:
        return replace(formal, type=Mode(type.name, type.size))
    if group is None or not isinstance(type, Integer):
        return formal
    named = Flags(type.name, type.size, type.signed, group.field, group.constants)
    return replace(formal, type=named)


def _read_table(machine: str) -> Table:
    path = os.path.join(os.path.dirname(__file__), "tables", f"{machine}.json")
    return msgspec.json.decode(read_bytes(path), type=Table)


def _declared(table: Table, name: str) -> Declaration | None:
    """The declaration of a function; also of one that replaces another, and takes a flag before its
    format, after that the size of its buffer, if it has one."""
    checked = CHECKED.fullmatch(name)
    declared = table.functions.get(checked[1] if checked else name)
    if not (checked and declared):
        return declared
    sizes = [("slen", "size_t")] * (declared.parameters[0][0] == "s")
    parameters = (*declared.parameters[:-2], ("flag", "int"), *sizes, *declared.parameters[-2:])
    return replace(declared, parameters=parameters)


def _prototype(table: Table, declared: Declaration) -> Prototype:
    formals = [_formal(table, *each) for each in declared.parameters if each[1] != "..."]
    result = None if declared.result == "void" else _formal(table, "", declared.result)
    complete = len(formals) == len(declared.parameters)
    return Prototype(tuple(formals), result, exact=True, complete=complete)


def _formal(table: Table, name: str, text: str) -> Formal:
    kind = table.types[text]
    scalar = Scalar(0, kind.size, "float" if kind.kind == "float" else "integer")
    return Formal(name, _type(text, kind), kind.size, (scalar,))


def _type(text: str, kind: Kind) -> Type:
    name = text.replace("__", "") if text.startswith("__") else text
    if kind.kind == "pointer":
        return Pointer(name, 8, Character("char", 1, True) if TEXT.fullmatch(text) else None)
    if kind.kind == "float":
        return Float(name, kind.size)
    return Integer(name, kind.size, kind.signed)
