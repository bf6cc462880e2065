"""Memory that system calls read and fill: what is fetched of it, and when."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, dereferenced
from lbtrace.abi.system_calls import ARGUMENTS, RESULT
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import Fetch, Value
from lbtrace.model.wire_limits import VALUES
from lbtrace.syscalls import Call, Table
from lbtrace.syscalls.structures import SOCKET_ADDRESS, fetch_filled
from lbtrace.values.argument_vector import ArgumentVector
from lbtrace.values.by_argument import ByArgument
from lbtrace.values.mode import Mode
from lbtrace.values.outcome import Outcome
from lbtrace.values.pointer import Pointer
from lbtrace.values.socket_address import SocketAddress
from lbtrace.values.string import String

CREATES = 0x400040
"""Flags of open(2) with which it takes a mode: ``O_CREAT`` and ``O_TMPFILE``, everywhere."""

ARGUMENTS_SHOWN = 6
"""Arguments of a program that are shown: `CHUNKS` texts fit into an event, two of others."""

REPLACING = frozenset({"execve", "execveat"})
"""Calls after which nothing is left of the memory that their arguments led to."""

FILLING = {
    "read": "buf", "pread64": "buf", "recvfrom": "ubuf", "readlink": "buf", "readlinkat": "buf",
    "getrandom": "buf", "getcwd": "buf", "getxattr": "value", "lgetxattr": "value",
    "fgetxattr": "value", "listxattr": "list", "llistxattr": "list", "flistxattr": "list",
    "mq_timedreceive": "u_msg_ptr",
}  # fmt: skip
"""Calls that fill a buffer with as many bytes as they return."""

LENGTHS = frozenset(
    {"count", "len", "size", "bufsiz", "plen", "msg_len", "sigsetsize", "nr", "optlen"}
)
"""Names of arguments that say how long what the argument before leads to is."""


class CallBuffers(NamedTuple):
    """The ``values`` of a call with its buffers, and what is fetched when it ends where a part of
    them could not be read when it began."""

    values: CallValues
    again: tuple[Fetch, ...] = ()


def with_buffers(
    machine: str, name: str, table: Table, values: CallValues, limit: int
) -> CallBuffers:
    """Return ``values`` of the call ``name`` with the bytes of buffers and structures: those that
    the caller passes when the call begins, those that the kernel fills when it ends."""
    call = table.calls[name]
    parameters, fetches = list(values.parameters), list(values.fetches)
    for number, value in enumerate(parameters):
        if value.slot < 0:
            continue
        own, length = fetches[value.slot], _length_of(call, number)
        type = call.parameters[number].type
        if type == "struct sockaddr *" and call.parameters[number + 1].type == "int":
            counted = parameters[number + 1].slot
            fetches[value.slot] = replace(
                own, read="bytes", limit=SOCKET_ADDRESS, length_from=counted
            )
            parameters[number] = replace(value, type=SocketAddress(type))
        elif _is_buffer(call, number):
            counted = parameters[length].slot
            fetches[value.slot] = Fetch(
                register=own.register, read="bytes", limit=limit, length_from=counted
            )
            parameters[number] = replace(value, type=String(type))
        elif _is_filled(name, call, number) and own.read == "string":
            fetches[value.slot] = replace(own, read="value")
            parameters[number] = replace(value, type=Pointer(type))
        elif name in REPLACING and value.name == "argv" and not own.derefs:
            first = len(fetches)
            texts = [dereferenced(own, WORD * n) for n in range(ARGUMENTS_SHOWN)]
            fetches += [replace(text, read="string", limit=limit, optional=True) for text in texts]
            members = tuple(Value("", String("char *"), first + n) for n in range(len(texts)))
            parameters[number] = replace(value, type=ArgumentVector(type), members=members)
        elif type == "umode_t" and parameters[number - 1].name in ("flags", "oflag"):
            members = (parameters[number - 1], value)
            parameters[number] = replace(value, type=Mode(type, 4, CREATES), members=members)
        elif isinstance(value.type, ByArgument):
            by = [each for each in parameters if each.name == value.type.by]
            parameters[number] = replace(value, members=(*by, value)) if by else value
    made = replace(values, parameters=tuple(parameters), fetches=tuple(fetches))
    result = values.result
    if result is None or not isinstance(result.type, Outcome):
        return CallBuffers(made)
    return _with_results(machine, name, table, made, limit, result, result.type)


def _with_results(
    machine: str,
    name: str,
    table: Table,
    values: CallValues,
    limit: int,
    result: Value,
    outcome: Outcome,
) -> CallBuffers:
    """The same with what is read when the call ends."""
    registers, call = ARGUMENTS[machine], table.calls[name]
    fetches = [*values.result_fetches]
    members = [Value("", result.type, result.slot)]
    filled = _filled(machine, name, call)
    if filled is not None:
        register, counted = registers[filled], result.slot
        fetch = Fetch(register=register, limit=limit, read="bytes", length_from=counted)
        if name == "getcwd":  # which counts the NUL
            fetch = replace(fetch, read="string", length_from=-1)
        buffer = call.parameters[filled]
        members.append(Value(buffer.name, String(buffer.type), len(fetches)))
        fetches.append(replace(fetch, optional=True))
    structures, fetches = fetch_filled(machine, table, name, fetches)
    members += structures
    again, late = list(fetches), list[Value]()
    for number, value in enumerate(values.parameters):
        if value.slot < 0:
            continue
        fetch = values.fetches[value.slot]
        if fetch.read == "value" or registers[number] == RESULT[machine] or name in REPLACING:
            continue
        if fetch.length_from >= 0:
            again.append(values.fetches[fetch.length_from])
            fetch = replace(fetch, length_from=len(again) - 1)
        late.append(replace(value, slot=len(again)))
        again.append(fetch)
    if len(again) > VALUES:  # each fits into any event
        again, late = [], []
    if len(members) + len(late) > 1:
        outcome = replace(outcome, late=len(late))
        result = replace(result, type=outcome, members=(*members, *late))
    made = replace(values, result=result, result_fetches=tuple(fetches))
    return CallBuffers(made, tuple(again) if late else ())


def _filled(machine: str, name: str, call: Call) -> int | None:
    """Which argument leads to what the kernel has filled when the call ends, if its register is
    not lost by then."""
    number = next(
        (n for n, each in enumerate(call.parameters) if FILLING.get(name) == each.name), None
    )
    if number is None or ARGUMENTS[machine][number] == RESULT[machine]:
        return None
    return number


def _length_of(call: Call, number: int) -> int:
    """Which argument says how many bytes there are where the argument of this number leads;
    -1 where none does."""
    following = number + 1
    if following < len(call.parameters):
        after = call.parameters[following]
        if after.name in LENGTHS and "*" not in after.type:
            return following
    return -1


def _is_buffer(call: Call, number: int) -> bool:
    """Whether an argument leads to bytes that the caller passes, which another counts."""
    type = call.parameters[number].type
    return type in ("const void *", "const char *") and _length_of(call, number) >= 0


def _is_filled(name: str, call: Call, number: int) -> bool:
    """Whether an argument leads to what the kernel fills meanwhile."""
    parameter = call.parameters[number]
    if FILLING.get(name) == parameter.name:
        return True
    return "*" in parameter.type and _length_of(call, number) >= 0 and "const" not in parameter.type
