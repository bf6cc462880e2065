"""Memory that system calls read and fill: what is fetched of it, and when."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, dereferenced
from lbtrace.abi.system_calls import ARGUMENTS, RESULT
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import Fetch, Value
from lbtrace.model.wire_limits import FETCHES, VALUES
from lbtrace.syscalls import Call, Table
from lbtrace.syscalls.prototypes import MAPPING, type_of
from lbtrace.syscalls.structures import Leading
from lbtrace.values.argument_vector import ArgumentVector
from lbtrace.values.by_argument import ByArgument, Case
from lbtrace.values.flags import Flags
from lbtrace.values.integer import Integer
from lbtrace.values.mode import CREATES, Mode
from lbtrace.values.outcome import Outcome
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record
from lbtrace.values.socket_address import LONGEST, SocketAddress
from lbtrace.values.string import String

ARGUMENTS_SHOWN = 6
"""Arguments of a program that are shown: `CHUNKS` texts fit into an event, two of others."""

REPLACING = frozenset({"execve", "execveat"})
"""Calls after which nothing is left of the memory that their arguments led to."""

FILLING = {
    "read": "buf", "pread64": "buf", "recvfrom": "ubuf", "readlink": "buf", "readlinkat": "buf",
    "getrandom": "buf", "getcwd": "buf", "getxattr": "value", "lgetxattr": "value",
    "fgetxattr": "value", "listxattr": "list", "llistxattr": "list", "flistxattr": "list",
    "listxattrat": "list", "mq_timedreceive": "msg_ptr",
}  # fmt: skip
"""Calls that fill a buffer with as many bytes as they return."""

EXCEEDING = frozenset({
    "recvfrom", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
    "listxattrat",
})  # fmt: skip
"""Those that may return more: how much there would have been for a larger buffer."""

FILLING_UNLESS_0 = frozenset({"wait4"})
"""Calls that fill nothing where they return 0: no child has ended."""

ROOM = Integer("size_t", 8, False)

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
    machine: str,
    name: str,
    table: Table,
    values: CallValues,
    limit: int,
    shown: Mapping[str, int],
) -> CallBuffers:
    """Return ``values`` of the call ``name`` with the bytes of buffers and structures: those that
    the caller passes when the call begins, those that the kernel fills when it ends. ``shown`` are
    the arguments that are shown, by their names there."""
    registers, call = ARGUMENTS[machine], table.calls[name]
    parameters, fetches = list(values.parameters), list(values.fetches)

    def slot_of(number: int) -> int:
        """The slot of what an argument itself is; -1 where none is left."""
        own = Fetch(register=registers[number])
        if own not in fetches and len(fetches) < FETCHES:
            fetches.append(own)
        return fetches.index(own) if own in fetches else -1

    for at, value in enumerate(parameters):
        number = shown.get(value.name, -1)
        if value.slot < 0 or number < 0:
            continue
        own, length = fetches[value.slot], length_of(call, number)
        type = call.parameters[number].type
        leading = Leading(machine, name, table, limit, fetches, ended=False)
        rows = leading.rows(number)
        if rows and own == Fetch(register=registers[number]):
            known = replace(value, type=type_of(table, name, number)) if rows[0].by else value
            if led := leading.value(number, value.name, known):
                parameters[at] = led
                fetches[:] = leading.fetches
        elif is_address_of_socket(call, number):
            counted = slot_of(number + 1)
            fetches[value.slot] = replace(own, read="bytes", limit=LONGEST, length_from=counted)
            parameters[at] = replace(value, type=SocketAddress(type))
        elif is_buffer(call, number):
            fetches[value.slot] = Fetch(
                register=own.register, read="bytes", limit=limit, length_from=slot_of(length)
            )
            parameters[at] = replace(value, type=String(type))
        elif is_filled(name, call, number) and own.read == "string":
            fetches[value.slot] = replace(own, read="value")
            parameters[at] = replace(value, type=Pointer(type))
        elif name in REPLACING and call.parameters[number].name == "argv" and not own.derefs:
            first = len(fetches)
            texts = [dereferenced(own, WORD * n) for n in range(ARGUMENTS_SHOWN)]
            fetches += [replace(text, read="string", limit=limit, optional=True) for text in texts]
            members = tuple(Value("", String("char *"), first + n) for n in range(len(texts)))
            parameters[at] = replace(value, type=ArgumentVector(type), members=members)
        elif type == "umode_t" and call.parameters[number - 1].name in ("flags", "oflag"):
            members = (Value("", value.type, slot_of(number - 1)), value)
            parameters[at] = replace(value, type=Mode(type, 4, CREATES), members=members)
        elif isinstance(value.type, ByArgument):
            by = next(n for n, each in enumerate(call.parameters) if each.name == value.type.by)
            members = (Value("", value.type, slot_of(by)), value)
            parameters[at] = replace(value, members=members)
    made = replace(values, parameters=tuple(parameters), fetches=tuple(fetches))
    if values.result is None:
        return CallBuffers(made)
    return _with_results(machine, name, table, made, limit, values.result, set(shown.values()))


def _with_results(
    machine: str,
    name: str,
    table: Table,
    values: CallValues,
    limit: int,
    result: Value,
    shown: Container[int],
) -> CallBuffers:
    """The same with what is read when the call ends."""
    own, call = Fetch(register=RESULT[machine]), table.calls[name]
    fetches = [*values.result_fetches]
    if own not in fetches:
        fetches.append(own)
    slot = fetches.index(own)
    parts = result.members if isinstance(result.type, Record) else (result,)
    numbers = [each for each in parts if each.slot == slot and not each.members]
    outcome = Outcome("long", name in MAPPING)
    returned = replace(numbers[0] if numbers else Value("", outcome, slot), name="")
    returned = _named(machine, name, table, returned, fetches)
    members = [returned, *(each for each in parts if each not in numbers)]
    unless_0 = name in FILLING_UNLESS_0
    outcome = replace(outcome, asked=len(members) - 1, fills_unless_0=unless_0)
    filled = _filled(machine, name, call)
    room = -1
    if filled is not None and filled in shown:
        register, counted = ARGUMENTS[machine][filled], returned.slot
        fetch = Fetch(register=register, limit=limit, read="bytes", length_from=counted)
        if name == "getcwd":  # which counts the NUL
            fetch = replace(fetch, read="string", length_from=-1)
        buffer = call.parameters[filled]
        members.append(Value(buffer.name, String(buffer.type), len(fetches)))
        fetches.append(replace(fetch, optional=True))
        if name in EXCEEDING:
            room = len(fetches)
            fetches.append(Fetch(register=ARGUMENTS[machine][filled + 1]))
    leading = Leading(machine, name, table, limit, fetches, ended=True)
    members += leading.filled(shown)
    fetches = list(leading.fetches)
    again, late = list(fetches), list[Value]()
    for value in values.parameters:
        fetch = values.fetches[value.slot]
        counted = fetch.length_from
        if value.slot < 0 or value.members or not _lasts(machine, fetch):
            continue
        if counted >= 0:
            if not _lasts(machine, replace(values.fetches[counted], read="integer")):
                continue
            again.append(values.fetches[counted])
            fetch = replace(fetch, length_from=len(again) - 1)
        late.append(replace(value, slot=len(again)))
        again.append(fetch)
    if len(again) > VALUES:  # each fits into any event
        again, late = [], []
    if len(members) + len(late) > 1:
        outcome = replace(outcome, late=len(late), bounded=room >= 0)
        last = [Value("", ROOM, room)] if room >= 0 else []
        returned = replace(returned, type=outcome, members=(*members, *late, *last))
    made = replace(values, result=returned, result_fetches=tuple(fetches))
    return CallBuffers(made, tuple(again) if late else ())


def _named(machine: str, name: str, table: Table, returned: Value, fetches: list[Fetch]) -> Value:
    """What a call has ``returned``, with names where one of its arguments says which."""
    chosen = table.chosen.get(f"{name}.retval")
    if chosen is None:
        return returned
    parameters = [each.name for each in table.calls[name].parameters]
    by = Value("", Integer("int", 4, True), len(fetches))
    fetches.append(Fetch(register=ARGUMENTS[machine][parameters.index(chosen.by)]))
    cases = tuple(
        Case(keys, Outcome(names=Flags("long", 8, True, group.field, group.constants)))
        for keys, each in chosen.cases
        for group in (table.groups[each],)
    )
    type = ByArgument("long", 8, chosen.by, cases, returned.type)
    return replace(returned, type=type, members=(by, returned))


def _lasts(machine: str, fetch: Fetch) -> bool:
    """Whether what is read of memory can be read again when the call ends. Where nothing is left of
    the memory (`REPLACING`), the kernel's part does not ask."""
    if fetch.read == "value" or fetch.register == RESULT[machine]:
        return False
    return fetch.base == "register" and fetch.plus < 0


def _filled(machine: str, name: str, call: Call) -> int | None:
    """Which argument leads to what the kernel has filled when the call ends, if its register is
    not lost by then."""
    number = next(
        (n for n, each in enumerate(call.parameters) if FILLING.get(name) == each.name), None
    )
    if number is None or ARGUMENTS[machine][number] == RESULT[machine]:
        return None
    return number


def length_of(call: Call, number: int) -> int:
    """Return which argument says how many bytes there are where the argument of this number leads;
    -1 where none does."""
    following = number + 1
    if following < len(call.parameters):
        after = call.parameters[following]
        if after.name in LENGTHS and "*" not in after.type:
            return following
    return -1


def is_address_of_socket(call: Call, number: int) -> bool:
    """Return whether an argument leads to an address of a socket that the caller passes."""
    following = call.parameters[number + 1 : number + 2]
    return call.parameters[number].type == "struct sockaddr *" and any(
        each.type == "int" for each in following
    )


def is_buffer(call: Call, number: int) -> bool:
    """Return whether an argument leads to bytes that the caller passes, which another counts."""
    type = call.parameters[number].type
    return type in ("const void *", "const char *") and length_of(call, number) >= 0


def is_filled(name: str, call: Call, number: int) -> bool:
    """Return whether an argument leads to what the kernel fills meanwhile."""
    parameter = call.parameters[number]
    if FILLING.get(name) == parameter.name:
        return True
    return "*" in parameter.type and length_of(call, number) >= 0 and "const" not in parameter.type
