"""Structures that system calls fill: what is fetched of them when the call ends."""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from lbtrace.abi.locations import Detail, dereferenced
from lbtrace.abi.system_calls import ARGUMENTS, RESULT
from lbtrace.model import Fetch, Type, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.syscalls import Call, Part, Table
from lbtrace.values.array import Array
from lbtrace.values.base import Member
from lbtrace.values.flags import Flags
from lbtrace.values.integer import Integer, fixed_width
from lbtrace.values.mode import Mode
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record
from lbtrace.values.socket_address import LONGEST, SocketAddress
from lbtrace.values.wait_status import WaitStatus

UNLIMITED = ((-1, "RLIM_INFINITY"),)

INT = Integer("int", 4, True)


def fetch_filled(
    machine: str, table: Table, name: str, fetches: Sequence[Fetch], shown: Container[int]
) -> tuple[list[Value], list[Fetch]]:
    """Return the structures and addresses of sockets that the call ``name`` fills where arguments
    lead that are ``shown``, by their numbers, and ``fetches`` with what is fetched of them. A
    register that the result takes is lost."""
    call, registers = table.calls[name], ARGUMENTS[machine]
    fetcher = Fetcher(FETCHES, Detail(), kept=fetches)
    found = []
    for number, parameter in enumerate(call.parameters):
        if registers[number] == RESULT[machine] or number not in shown:
            continue
        start = Fetch(register=registers[number], optional=True)
        if kind := table.filled.get(f"{name}.{parameter.name}"):
            with fetcher.as_optional():
                found.append(fetcher.in_memory(parameter.name, _type(table, kind), start, 0))
        elif _is_address(call, number):
            length = dereferenced(Fetch(register=registers[number + 1], optional=True))
            counted = fetcher.slot(replace(length, derefs=(), read="integer", size=4))
            whole = replace(start, read="bytes", limit=LONGEST, length_from=counted)
            found.append(fetcher.take(parameter.name, SocketAddress(), whole))
    return found, list(fetcher.fetches)


def _is_address(call: Call, number: int) -> bool:
    """Whether an argument leads to the address of a socket, and the next one to its length."""
    types = [parameter.type for parameter in call.parameters[number : number + 2]]
    return types == ["struct sockaddr *", "int *"]


def passed(table: Table, name: str) -> Type | None:
    """Return the structure to which an argument, ``CALL.ARGUMENT``, leads when the call begins."""
    kind = table.filled.get(f"<{name}")
    return _type(table, kind) if kind else None


def _type(table: Table, kind: str) -> Type:
    if structure := table.structures.get(kind):
        members = tuple(Member(p.name, _number(p), p.offset) for p in structure.parts)
        return Record(kind, structure.size, members, structure.more)
    return WaitStatus() if kind == "wait" else Array(kind, 8, INT, 2)


def _number(part: Part) -> Type:
    if part.written == "mode":
        return Mode("umode_t", part.size)
    if part.written == "address":
        return Pointer("void *")
    if part.written == "limit":
        return Flags("rlim_t", part.size, field=-1, values=UNLIMITED)
    return fixed_width(part.size, signed=part.signed)
