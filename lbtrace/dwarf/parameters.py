"""One parameter of a function in DWARF: its type, and where it is passed."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from lbtrace.abi.dwarf_registers import stack_pointer
from lbtrace.abi.locations import OPTIMISED_OUT, UNKNOWN
from lbtrace.dwarf import attributes, location_views
from lbtrace.dwarf.attributes import origins
from lbtrace.dwarf.passing import Types
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.forms import sleb
from lbtrace.dwarf.reader.pieces import read_pieces
from lbtrace.model import Formal

CONSTANTS = frozenset(
    {*(0x03, 0x9E, 0xA0, 0xA1, 0xF2, 0xFA), *range(0x08, 0x12), *range(0x30, 0x50)}
)
"""What the location begins with of what is not passed: DW_OP_addr, implicit_value,
implicit_pointer, addrx, GNU_implicit_pointer, GNU_parameter_ref, const1u to consts, lit0
to lit31."""

FIRST_VECTOR = 17
"""DWARF's number of xmm0 (psABI, figure 3.36). Of arm64 the integer registers from here on
hold no parameter."""

Home: TypeAlias = tuple[int, int] | None
"""See `Formal.frame_location`."""

LARGEST = 16
"""Bytes of a value that travels in integer registers, at most."""


class Callers(NamedTuple):
    """What the compiler may make of a function's parameters: all callers are ``known`` to it,
    this is a copy that it has ``cloned``, and it ``promotes`` structs, which callers would copy
    to the stack, to parameters for their members. It is ``silent`` about what it changes, and
    changes nothing of ``plain`` functions; it says that it has ``optimised`` the function. It has
    ``followed`` how variables move. Callers pass values in ``registers``."""

    known: bool
    cloned: bool
    promotes: bool
    silent: bool
    plain: bool
    optimised: bool
    followed: bool
    registers: Collection[int]


def read_parameter(
    die: Any, own: Any, function: Any, address: int, callers: Callers, types: Types
) -> Formal:
    """Return a parameter: ``die`` declares it, ``own`` (or None) says where this copy of the
    function at ``address`` keeps it."""
    recorded = own is not None and "DW_AT_location" in own.attributes
    expression = location_views.expression_at_entry(own, address) if recorded else b""
    home = lists.home(own, function) if own is not None else None
    if home is None and callers.plain:  # in frames with alignment LLVM names the stack pointer
        home = lists.in_frame(expression)
    formal = _read_declared(die, expression, types)
    own_pointer = "DW_AT_artificial" in die.attributes and formal.type.is_address
    if types.foreign and not (formal.reference or own_pointer):
        pointed = lists.home_of_pointer(own, function) if own is not None else None
        if pointed is not None or lists.pointer(expression) >= 0:
            formal, home = replace(formal, reference=True), pointed
    held = _locate(formal, expression, llvm=types.llvm, plain=callers.plain)
    located, known = _judge(formal, held, own if recorded else None, expression, callers, types)
    # Where gcc changes what is passed it makes a copy of the function with a name of its own.
    missing_reason = (
        OPTIMISED_OUT if not located and known and (types.llvm or callers.cloned) else ""
    )
    # LLVM leaves out what a function does not read where it calls it, exported or not. It takes its
    # place nevertheless where other files may call the function.
    unread = not recorded or (types.llvm and _is_constant(expression))
    may_be_unset = unread and not missing_reason and (types.llvm or known)
    late = None
    if located and not moves(own):
        late = _find_late_reason(held, callers, known=known, llvm=types.llvm)
    if home is None and located and types.llvm and not formal.reference:
        home = _find_pushed(own, expression, stack_pointer(types.machine))
    return replace(
        held if located else formal,
        may_shift=types.llvm and not callers.plain and (callers.known or callers.promotes),
        missing_reason=missing_reason,
        may_be_unset=may_be_unset,
        late_reason=late,
        frame_location=home,
        **(_find_first(own, address) if types.llvm and recorded and not expression else {}),
        derived_from=lists.derived_from(expression) if located and types.llvm else -1,
    )


def _find_first(own: Any, address: int) -> dict[str, Any]:
    """Where a parameter is first in the function at ``address``, if it is not at its entry."""
    if own.get("DW_AT_location").form in lists.EXPRESSIONS:
        return {}
    later = [each for each in lists.locations(own) if each.low > address and each.expression]
    if not later:
        return {}
    first = min(later, key=attrgetter("low"))
    return {
        "begins_after": first.low - address,
        "first_registers": tuple(lists.registers(first.expression)),
        "first_constant": lists.is_constant(first.expression),
        "first_stored": lists.in_frame(first.expression) is not None,
    }


def _read_declared(die: Any, expression: bytes, types: Types) -> Formal:
    """The parameter with the type and name that it is declared with. Where it may be passed in
    several ways, ``expression``, its location, tells in which."""
    declared = origins(die)
    typed = next((d for d in declared if "DW_AT_type" in d.attributes), None)
    name = next((n for d in declared if (n := attributes.text(d, "DW_AT_name"))), "")
    formal = types.formal(name, typed)
    ways = types.either(name, typed)
    return next((way for way in ways if _is_shown(way, expression)), formal)


def _judge(
    formal: Formal, held: Formal, own: Any, expression: bytes, callers: Callers, types: Types
) -> tuple[bool, bool]:
    """Whether a parameter is passed where ``own`` (None without a location) keeps it, and
    whether the compiler may know its value and pass nothing."""
    if _is_constant(expression):  # the compiler knows the value, and may pass nothing
        return False, callers.known or not types.llvm
    in_memory = lies_in_memory(formal)
    if own is None:
        # Where it promotes structs it may pass what lies in memory.
        promoted = callers.promotes and (formal.type.is_address or in_memory)
        return False, callers.known or promoted
    if not _names_parameters(held, expression, callers):
        return False, callers.known
    if (
        callers.silent
        and callers.known
        and not _keeps_what_is_passed(held, own, expression, callers, types)
    ):
        return False, True
    if types.llvm and (formal.reference or in_memory):
        apart = lists.is_in_registers(expression)  # LLVM's argument promotion
        if apart or (callers.promotes and not formal.reference):
            return False, True
    return True, callers.known


def _is_constant(expression: bytes) -> bool:
    return bool(expression) and expression[0] in CONSTANTS


def _find_late_reason(held: Formal, callers: Callers, *, known: bool, llvm: bool) -> str | None:
    """See `Formal.late_reason`, for a parameter that is ``held`` in one place throughout.

    Where gcc has not followed how variables move (``-fno-var-tracking``, no optimisation, and
    functions for which it gives up) it names the register to which it has moved a parameter, for
    all of the function.
    """
    if llvm:
        late = not callers.plain and held.part_registers
        return (OPTIMISED_OUT if known else "") if late else None
    if callers.followed or not (held.part_registers or held.address >= 0):
        return None
    return UNKNOWN if callers.cloned else ""


def _names_parameters(held: Formal, expression: bytes, callers: Callers) -> bool:
    """Whether all registers of a location are some in which callers pass values."""
    named = {*held.part_registers, held.register, lists.pointer(expression)} - {-1}
    return all(number in callers.registers for number in named)


def _keeps_what_is_passed(
    held: Formal, own: Any, expression: bytes, callers: Callers, types: Types
) -> bool:
    """Whether a location is where a value was passed, and no copy of what the compiler knows."""
    if moves(own):
        return bool(held.pieces) or lists.is_passed(expression)
    # One place in the frame throughout may be such a copy.
    return not types.rust and (lists.is_in_registers(expression) or not callers.promotes)


def _find_pushed(own: Any, expression: bytes, base: int) -> Home:
    """The one location that a variable has, as far as it has any, if that is an offset from the
    stack pointer, the register ``base``."""
    code = lists.BASES[base]
    if not moves(own) or (expression and expression[0] != code):
        return None
    ways = {each.expression for each in lists.locations(own)}
    only = ways.pop() if len(ways) == 1 else b""
    if only[:1] != bytes([code]):
        return None
    offset, end = sleb(only, 1)
    return (base, offset) if end == len(only) else None


def moves(variable: Any) -> bool:
    """Return whether a variable is not in one place."""
    location = variable.attributes.get("DW_AT_location")
    return location is not None and location.form not in lists.EXPRESSIONS


def _is_shown(way: Formal, expression: bytes) -> bool:
    """Whether a parameter that is passed this ``way`` has this location at the function's
    first instruction: its numbers in registers of their kinds, or the address in one."""
    if way.reference:
        return lists.pointer(expression) >= 0
    kinds = ["float" if s.kind == "float" else "integer" for s in way.scalars or ()]
    held = ["float" if n >= FIRST_VECTOR else "integer" for n in lists.registers(expression)]
    return held == kinds


def lies_in_memory(formal: Formal) -> bool:
    """Whether every convention has a value in memory, or a pointer to it, unless it is
    made of floats alone."""
    scalars = formal.scalars or ()
    unaligned = any(s.offset % s.size for s in scalars)
    return not formal.reference and bool(scalars) and (formal.size > LARGEST or unaligned)


def _locate(formal: Formal, expression: bytes, *, llvm: bool, plain: bool) -> Formal:
    """``formal`` with the registers that hold it where its location is ``expression``."""
    held = tuple(lists.registers(expression))
    if formal.reference:
        # Of plain code LLVM says where the pointer to an object lies after it was moved.
        register = -1 if plain else lists.pointer(expression)
        return replace(
            formal, register=register, part_registers=(register,) if register >= 0 else held
        )
    pieces = read_pieces(expression) if llvm else ()
    if pieces and pieces[0].end:
        held = tuple(piece.register for piece in pieces)
        return replace(formal, part_registers=held, pieces=pieces)
    register = pieces[0].register if pieces else lists.register(expression)
    held = (register,) if register >= 0 else held
    return replace(
        formal, register=register, part_registers=held, address=lists.pointer(expression)
    )
