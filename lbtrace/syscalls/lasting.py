"""What system calls leave in memory, for conditions on it and keys made of it."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import Location
from lbtrace.abi.system_calls import ARGUMENTS, RESULT
from lbtrace.fetch.lasting import Content, Lasting
from lbtrace.model import Fetch
from lbtrace.syscalls import Call
from lbtrace.syscalls.buffers import (
    EXCEEDING,
    FILLING,
    REPLACING,
    is_address_of_socket,
    is_buffer,
    is_filled,
    length_of,
)
from lbtrace.values.socket_address import SocketAddress
from lbtrace.values.string import String


def find_lasting(machine: str, name: str, call: Call) -> Lasting | None:
    """Return the arguments as they are when a call ends; None where nothing is left of them."""
    if name in REPLACING:
        return None
    registers = ARGUMENTS[machine]

    def argument(number: int) -> Fetch:
        register = registers[number]
        return Fetch(base="kept" if register == RESULT[machine] else "register", register=register)

    contents: dict[str, Content] = {}
    for number, parameter in enumerate(call.parameters):
        length = length_of(call, number)
        size = _number(call, length, argument(length)) if length >= 0 else None
        if FILLING.get(name) == parameter.name:
            returned = Fetch(register=RESULT[machine], signed=True)
            lengths = [returned] if name != "getcwd" else []  # which ends with a NUL
            if size and name in EXCEEDING:
                lengths.append(size)
            contents[parameter.name] = Content(String(parameter.type), tuple(lengths))
        elif is_address_of_socket(call, number):
            size = _number(call, number + 1, argument(number + 1))
            contents[parameter.name] = Content(SocketAddress(parameter.type), (size,))
        elif size is not None and is_buffer(call, number):
            contents[parameter.name] = Content(String(parameter.type), (size,))
    places = tuple(Location(words=(argument(n),)) for n, _ in enumerate(call.parameters))
    filled = (p.name for n, p in enumerate(call.parameters) if is_filled(name, call, n))
    return Lasting(places, contents, frozenset(filled))


def _number(call: Call, number: int, argument: Fetch) -> Fetch:
    """The number that an argument is, in its width."""
    narrow = call.parameters[number].type in ("int", "unsigned int")
    return replace(argument, signed=True, bit_size=32 if narrow else 0)
