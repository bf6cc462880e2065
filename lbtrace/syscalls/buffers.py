"""Memory that system calls read and fill: what is fetched of it, and when."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.system_calls import ARGUMENTS, RESULT
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import Fetch, Value
from lbtrace.model.wire_limits import CHUNKS
from lbtrace.syscalls import Call
from lbtrace.values.mode import Mode
from lbtrace.values.pointer import Pointer
from lbtrace.values.socket_address import SocketAddress
from lbtrace.values.string import String

SOCKET_ADDRESS = 110
"""Bytes of the longest address of a socket (``struct sockaddr_un``)."""

CREATES = 0x400040
"""Flags of open(2) with which it takes a mode: ``O_CREAT`` and ``O_TMPFILE``, everywhere."""

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


def with_buffers(machine: str, name: str, call: Call, values: CallValues, limit: int) -> CallValues:
    """Return ``values`` with the bytes of buffers: those that the caller passes when the call
    begins, those that the kernel fills when it ends."""
    parameters, fetches = list(values.parameters), list(values.fetches)
    after, result = list(values.result_fetches), values.result
    for number, value in enumerate(parameters):
        if value.slot < 0:
            continue
        own, length = fetches[value.slot], length_of(call, number)
        type = call.parameters[number].type
        if type == "struct sockaddr *" and call.parameters[number + 1].type == "int":
            counted = parameters[number + 1].slot
            fetches[value.slot] = replace(
                own, read="bytes", limit=SOCKET_ADDRESS, length_from=counted
            )
            parameters[number] = replace(value, type=SocketAddress(type))
        elif is_buffer(call, number) and length < len(parameters):
            counted = parameters[length].slot
            fetches[value.slot] = Fetch(
                register=own.register, read="bytes", limit=limit, length_from=counted
            )
            parameters[number] = replace(value, type=String(type))
        elif is_filled(name, call, number) and own.read == "string":
            fetches[value.slot] = replace(own, read="value")
            parameters[number] = replace(value, type=Pointer(type))
        elif type == "umode_t" and parameters[number - 1].name in ("flags", "oflag"):
            members = (parameters[number - 1], replace(value, type=value.type))
            parameters[number] = replace(value, type=Mode(type, 4, CREATES), members=members)
    filled = _filled(machine, name, call)
    if filled is not None and result is not None:
        register = ARGUMENTS[machine][filled]
        after = [
            Fetch(register=RESULT[machine]),
            Fetch(register=register, read="bytes", limit=limit, length_from=0, optional=True)
            if name != "getcwd"  # which counts the NUL
            else Fetch(register=register, read="string", limit=limit, optional=True),
        ]
        buffer = call.parameters[filled]
        members = (Value("", result.type, 0), Value(buffer.name, String(buffer.type), 1))
        result = replace(result, slot=0, members=members)
    assert sum(fetch.read in ("string", "bytes") for fetch in fetches) <= CHUNKS
    return replace(
        values,
        parameters=tuple(parameters),
        fetches=tuple(fetches),
        result=result,
        result_fetches=tuple(after),
    )


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
