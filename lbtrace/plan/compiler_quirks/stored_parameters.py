"""Parameters of languages of whose convention nothing is known.

What debug information has in a register at the entry is there. Of unoptimised code it has the place
in the frame, into which the function's first instructions store what was passed: where they do not,
or not from one register, how it is passed is unknown. What is on the caller's stack, and floats,
which no probe reads but where they are stored, are taken as C passes them unless something else is
passed otherwise.
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi import doubt_result
from lbtrace.abi.dwarf_registers import find_number, find_register
from lbtrace.abi.locations import UNKNOWN, WORD, lose_unless_named
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, ArgumentStores
from lbtrace.model import CFA, OTHER_LANGUAGE, Formal, Prototype
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype``, if it is of such a language with the registers of what the code of its
    beginning stores."""
    hints = prototype.hints
    if hints.language != OTHER_LANGUAGE:
        return prototype
    stores = body.machine.find_argument_stores(body.beginning(BEGINNING))
    found = [_found(body.machine, formal, stores) for formal in prototype.parameters]
    lost = any(formal.missing_reason for formal in found)
    # Only C's convention would tell where the others are.
    parameters = tuple(lose_unless_named(each, UNKNOWN) if lost else each for each in found)
    known = replace(prototype, parameters=parameters, hints=replace(hints, language=""))
    return doubt_result(known)


def _found(machine: Machine, formal: Formal, stores: ArgumentStores | None) -> Formal:
    if formal.register < 0 and formal.type.is_address:  # ldc says of ``this`` where it leads
        formal = replace(formal, register=formal.address)
    if formal.register >= 0 or formal.missing_reason or formal.frame_location is None:
        return lose_unless_named(formal, formal.missing_reason or UNKNOWN)
    register = _source(machine, formal.frame_location, stores) if stores else ""
    if register == CALLER_STACK or _is_float(formal):
        return formal
    whole = formal.reference or formal.size <= WORD
    if not register or not whole:
        return replace(formal, missing_reason=UNKNOWN)
    return replace(formal, register=find_number(machine.name, register), frame_location=None)


def _source(machine: Machine, home: tuple[int, int], stores: ArgumentStores) -> str:
    """The register that is stored in a place of the frame, or `CALLER_STACK`."""
    number, offset = home
    if number == CFA:
        at = offset + machine.return_address_size
        name, byte = stores.first.get(at) or (CALLER_STACK if at > 0 else "", 0)
    else:
        base = find_register(machine.name, number)
        if isinstance(base, str):
            return ""
        name, byte = stores.find_source(base.register, offset)
    return name if not byte or name == CALLER_STACK else ""


def _is_float(formal: Formal) -> bool:
    scalars = formal.scalars or ()
    return not formal.reference and bool(scalars) and all(s.kind == "float" for s in scalars)
