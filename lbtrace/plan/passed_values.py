"""What known functions are passed beyond what their types say: buffers with a length, addresses of
sockets, and the mode that a call of ``open`` has where it creates a file.

Source: the Linux man-pages, sections 2 and 3; zlib.h; OpenSSL's manual, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import Fetch, Formal, Function, Prototype, Scalar, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.plan.filled_buffers import CORE
from lbtrace.recognize.slots import Slots
from lbtrace.values.mode import CREATES, Mode
from lbtrace.values.socket_address import LONGEST, SocketAddress
from lbtrace.values.string import String


class Passed(Struct, frozen=True):
    """The parameter ``number`` leads to as many bytes as the parameter ``length`` says, or to so
    many items of as many bytes as the parameter ``size`` is, if one is. It is text, or an
    ``address`` of a socket."""

    number: int
    length: int
    size: int = -1
    address: bool = False


PASSED = (
    (
        Passed(1, 2),
        "BIO_write SSL_write SSL_write_ex gzwrite mq_send pwrite pwrite64 send sendto write",
    ),
    (Passed(0, 2, 1), "fwrite fwrite_unlocked"),
    (Passed(2, 3), "fsetxattr lsetxattr setxattr"),
    (Passed(1, 2, address=True), "bind connect"),
    (Passed(4, 5, address=True), "sendto"),
)
"""By the names of functions."""

CREATING = {"open": 1, "open64": 1, "openat": 2, "openat64": 2}
"""Functions that take a mode, which they do not declare, behind the flags: the parameter of this
number."""


def with_passed(
    machine: str, function: Function, prototype: Prototype, values: CallValues, limit: int
) -> CallValues:
    """Return ``values`` of a ``function`` of a known library with what its arguments lead to, texts
    up to a ``limit`` of bytes; the same where that is nothing, or there is no room."""
    names = names_of(function)
    rows = [row for row, listed in PASSED if not names.isdisjoint(listed.split())]
    flags = next((CREATING[name] for name in names if name in CREATING), -1)
    count = len(prototype.parameters)
    if len(values.parameters) != count:
        return values
    for row in rows:
        if max(row.number, row.length, row.size) < count:
            values = _led(machine, prototype, values, row, limit)
    return _with_mode(machine, prototype, values) if flags == count - 1 else values


def names_of(function: Function) -> set[str]:
    """Return the names of a function, also without what marks them as those of a variant."""
    names = (function.name, *function.aliases)
    cores = (CORE.fullmatch(name) for name in names)
    return {name.partition("@")[0] for name in names} | {core[1] for core in cores if core}


def _led(
    machine: str, prototype: Prototype, values: CallValues, row: Passed, limit: int
) -> CallValues:
    """The same with what one argument leads to."""
    words = _words(machine, prototype, (row.number, row.length, max(row.size, 0)))
    if not words:
        return values
    start, length, size = words
    # What a condition compares remains in its slot.
    kept = values.fetches
    own = values.parameters[row.number].slot
    free = own >= 0 and not values.conditions and kept[own] == start
    slots = Slots(FETCHES, kept=kept)
    if row.size >= 0:
        length = replace(length, operation="multiply", plus=slots.slot(size))
    elif (declared := prototype.parameters[row.length].type).size < 8:
        length = replace(length, bit_size=8 * declared.size, signed=declared.signed)
    limit = LONGEST if row.address else limit
    fetch = replace(start, read="bytes", limit=limit, length_from=slots.slot(length))
    at = own if free else slots.slot(fetch)
    if slots.is_short:
        return values
    fetches = [*slots.fetches]
    fetches[at] = fetch
    formal = prototype.parameters[row.number]
    type = SocketAddress() if row.address else String(formal.type.name)
    parameters = [*values.parameters]
    parameters[row.number] = Value(formal.name, type, at)
    return replace(values, parameters=tuple(parameters), fetches=tuple(fetches))


def _with_mode(machine: str, prototype: Prototype, values: CallValues) -> CallValues:
    """The same with the mode, which counts where the flags say that a file is created."""
    type = Mode("mode_t", 4, CREATES)
    mode = Formal("mode", type, type.size, (Scalar(0, type.size, "integer"),))
    declared = (each.without_location() for each in prototype.parameters)
    number = len(prototype.parameters)
    words = _words(machine, Prototype((*declared, mode)), (number - 1, number))
    slots = Slots(FETCHES, kept=values.fetches)
    members = tuple(Value("", type, slots.slot(word)) for word in words)
    if slots.is_short or not members:
        return values
    shown = Value(mode.name, type, members[1].slot, members=members)
    return replace(values, parameters=(*values.parameters, shown), fetches=slots.fetches)


def _words(machine: str, prototype: Prototype, numbers: Iterable[int]) -> list[Fetch]:
    """The registers of the parameters of these numbers; none where one is in no register."""
    places = locate_values(machine, prototype).parameters
    words = [places[number].word()[0] for number in numbers]
    found = [word for word in words if not isinstance(word, str) and word.base == "register"]
    return found if len(found) == len(words) else []
