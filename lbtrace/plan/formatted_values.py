"""What functions that take a format of ``printf`` are passed beyond what they declare.

Which values these are, only the format says: what may be one is fetched, and each text to which it
may lead.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from lbtrace.abi import find_default, locate_values
from lbtrace.abi.locations import Location, dereferenced
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import UNKNOWN, Fetch, Formal, Function, Prototype, Scalar, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.plan.passed_values import names_of
from lbtrace.plan.read_arguments import with_more
from lbtrace.plan.value_selection import long
from lbtrace.recognize.slots import TOO_MANY, Slots
from lbtrace.values.float import Float
from lbtrace.values.formatted import WORD, Formatted
from lbtrace.values.string import String

TAKING = re.compile(
    r"(BIO_(sn)?|gz|obstack_|[fds]|sn|as)?printf|syslog|(err|warn)x?|error(_at_line)?"
)
"""Functions whose last parameter is a format."""

OTHERS = re.compile(
    r"execl[ep]?|fcntl(64)?|ioctl|prctl|ptrace|semctl|syscall|clone|mremap|(mq|sem)_open"
    r"|(isoc\d\d_)?[fs]?w?scanf|[fs]?wprintf|strfmon(_l)?|makecontext"
)
"""Functions that may take more than they declare, of which it is not looked at what."""

PUSHED = 6
"""Words that are read of the stack."""

MOST = 16
"""No convention passes as many values of one kind in registers."""

DOUBLE, TEXT = Float("double", 8), String("char *")


def with_formatted(
    machine: str, function: Function, prototype: Prototype, values: CallValues, limit: int
) -> CallValues:
    """Return ``values`` of a ``function`` of a known library with what its format asks for, texts
    up to a ``limit`` of bytes; the same where it takes nothing that it does not declare."""
    last, names = prototype.parameters[-1:], names_of(function)
    if any(map(OTHERS.fullmatch, names)):
        return with_more(values)
    takes = any(map(TAKING.fullmatch, names))
    if not (takes and last and last[0].type.is_text() and values.parameters):
        return values
    format = values.parameters[-1]
    integers, floats, pushed = _left(machine, prototype)
    piece = replace(pushed, read="bytes", limit=PUSHED * WORD, optional=True)
    slots = Slots(FETCHES, kept=values.fetches)
    words = [Value("", UNKNOWN, slots.slot(word)) for word in integers]
    stack = Value("", TEXT, slots.slot(piece))
    is_read = format.slot >= 0 and values.fetches[format.slot].read == "string"
    if slots.is_short or not is_read or len(values.parameters) != len(prototype.parameters):
        return with_more(values)
    addresses = [*integers, *(dereferenced(pushed, n * WORD) for n in range(PUSHED))]
    read = [replace(each, read="string", limit=limit, optional=True, scale=0) for each in addresses]
    texts = [Value("", TEXT, slots.slot(each), TOO_MANY) for each in read]
    type = Formatted("...", len(integers), floats, find_default(machine).x87)
    shown = Value("...", type, format.slot, members=(format, stack, *words, *texts))
    return replace(values, parameters=(*values.parameters, shown), fetches=slots.fetches)


def _left(machine: str, prototype: Prototype) -> tuple[list[Fetch], tuple[str, ...], Fetch]:
    """What the declared parameters leave: the registers for integers, why each of those for floats
    cannot be read, and the address where the stack begins."""
    declared = tuple(each.without_location() for each in prototype.parameters)

    def placed(formal: Formal) -> list[Location]:
        wider = Prototype((*declared, *[formal] * MOST))
        return [*locate_values(machine, wider).parameters[len(declared) :]]

    integers = placed(long(""))
    floats = placed(Formal("", DOUBLE, DOUBLE.size, (Scalar(0, DOUBLE.size, "float"),)))
    return (
        [word for place in integers for word in place.words if isinstance(word, Fetch)],
        tuple([word for place in floats for word in place.words if isinstance(word, str)]),
        next(place.memory for place in integers if place.memory),
    )
