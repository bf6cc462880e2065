"""What the arguments and results of system calls are, by their types and names in C."""

from __future__ import annotations

import re

from lbtrace.model import Formal, Prototype, Scalar, Type
from lbtrace.syscalls import Parameter, Table
from lbtrace.syscalls.structures import passed
from lbtrace.values.by_argument import ByArgument, Case
from lbtrace.values.character import Character
from lbtrace.values.device import Device
from lbtrace.values.flags import Flags
from lbtrace.values.integer import Integer
from lbtrace.values.mode import Mode
from lbtrace.values.outcome import Outcome
from lbtrace.values.owner import Owner
from lbtrace.values.pointer import Pointer
from lbtrace.values.word import Word

NEVER_RETURN = frozenset({"exit", "exit_group", "rt_sigreturn"})
"""Calls whose return nobody sees, or that of another call."""

MAPPING = frozenset({"mmap", "mremap", "brk", "shmat"})
"""Calls that return addresses."""

ADDRESS = re.compile(r"(new_)?addr|start|brk|addr_hint|newsp|tls")
"""Names of numbers that are addresses."""

ANYTHING = re.compile(r"arg\d?|data|idx\d")
"""Names of numbers that may be addresses."""

NO_TEXTS = frozenset({"optval", "vec", "shmaddr"})
"""Arguments to ``char`` that lead to no characters: options of sockets, pages (mincore(2)), shared
memory."""

DESCRIPTOR = re.compile(r"[a-z]*fd")

WIDE = re.compile(r"\b(long|size_t|ssize_t|loff_t|off_t|u64|aio_context_t)\b")
SIGNED = re.compile(
    r"^(long|int|off_t|loff_t|ssize_t|pid_t|clockid_t|timer_t|rwf_t|mqd_t|key_t|key_serial_t|__s32)$"
)


CHAR = Character("char", 1, True)


def prototype_of(table: Table, name: str) -> Prototype:
    """Return the arguments and the result of a call."""
    call = table.calls[name]
    formals = tuple(_formal(table, name, number) for number, _ in enumerate(call.parameters))
    result: Type = Outcome("long", name in MAPPING)
    if name == "umask":
        result = Mode("long", 8)
    returned = None if name in NEVER_RETURN else Formal("", result, 8, _whole(8))
    return Prototype(formals, returned, exact=True, complete=True)


def raw_prototype() -> Prototype:
    """Return what a call has of which nothing but the number is known."""
    number = Pointer("unsigned long")
    names = ("number", *(f"arg{n}" for n in range(1, 7)))
    formals = tuple(Formal(name, number, 8, _whole(8)) for name in names)
    result = Formal("", Outcome("long"), 8, _whole(8))
    return Prototype(formals, result, exact=True, complete=True)


def type_of(table: Table, call: str, number: int) -> Type:
    """Return what the argument of a number is, but for what it leads to."""
    parameter = table.calls[call].parameters[number]
    type = _type(table, parameter)
    if chosen := table.chosen.get(f"{call}.{parameter.name}"):
        cases = [Case(keys, _case(table, parameter, group)) for keys, group in chosen.cases]
        type = ByArgument(parameter.type, type.size, chosen.by, tuple(cases), type, type.signed)
    return type


def _formal(table: Table, call: str, number: int) -> Formal:
    parameter = table.calls[call].parameters[number]
    structure = passed(table, f"{call}.{parameter.name}") if "*" in parameter.type else None
    made = Pointer(parameter.type, 8, structure) if structure else type_of(table, call, number)
    return Formal(parameter.name, made, made.size, _whole(made.size), filled=bool(structure))


def _case(table: Table, parameter: Parameter, group: str) -> Type | None:
    """What an argument is where the ``group`` counts."""
    if group == "unused":
        return None
    if group == "address":
        return Pointer("void *")
    size = 8 if WIDE.search(parameter.type) else 4
    return _number(table, Parameter(parameter.name, parameter.type, group), size)


def _whole(size: int) -> tuple[Scalar, ...]:
    return (Scalar(0, size, "integer"),)


def _type(table: Table, parameter: Parameter) -> Type:
    name = parameter.type
    if name == "const char *const *":
        return Pointer(name, 8, Pointer("char *", 8, CHAR))
    if "*" in name:
        return Pointer(name, 8, CHAR if _is_text(parameter) else None)
    if name == "umode_t":
        return Mode(name, 4)
    size = 8 if WIDE.search(name) else 4
    if size == 8 and ADDRESS.fullmatch(parameter.name):
        return Pointer("void *")
    return _number(table, parameter, size)


def _number(table: Table, parameter: Parameter, size: int) -> Type:
    name, group = parameter.type, table.groups.get(parameter.group)
    descriptor = bool(DESCRIPTOR.fullmatch(parameter.name))
    signed = descriptor or bool(SIGNED.match(name))
    if group:
        if group.constants:
            return Flags(name, size, signed, group.field, group.constants)
        return Integer(name, size, signed)
    if name == "unsigned long" and ANYTHING.fullmatch(parameter.name):
        return Word(name, size, False)
    if name in ("uid_t", "gid_t"):
        return Owner(name, size)
    if parameter.name == "dev":
        return Device(name, size, passed=True)
    return Integer("int", 4, True) if descriptor else Integer(name, size, signed)


def _is_text(parameter: Parameter) -> bool:
    """Whether an argument leads to characters that the caller passes."""
    if parameter.name in NO_TEXTS:
        return False
    return bool(re.fullmatch(r"(const )?(unsigned )?char \*(const)?", parameter.type))
