"""Parameters that an optimised function overwrites before it reads them.

LLVM then has at the function's entry the location of what is assigned: often that of another
parameter. Of what the function does not read its callers may leave the register as it is, and where
LLVM knows all of them it drops the parameter. Of those with one location none is shown: which one
is passed there only its callers know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.locations import LEFT_OUT, OPTIMISED_OUT, WORD, Location
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, Code
from lbtrace.model import CFA, Fetch, Formal, Prototype
from lbtrace.plan.compiler_quirks.declared import is_as_declared, locate_declared, name_register
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody

FrameSize: TypeAlias = Callable[[], int | None]
"""How large a function's frame is: see `Machine.find_frame_size`."""

Source: TypeAlias = tuple[str, int]
"""Where a value is at entry: `CALLER_STACK` or `FRAME`, and how far from the stack pointer."""


FRAME_POINTER, STACK_POINTER = "bp", "sp"

FRAME = "frame"
"""What has the place of a register's name where a value is in the frame, and how far that is from
the stack pointer at entry is not known."""

LARGEST = 1 << 14
"""Bytes of a function's code that are read, at most."""


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype`` without those parameters that the function certainly, or possibly,
    overwrites first."""
    machine, code = body.machine, body.beginning
    if prototype.hints.compiler == "gcc" and not prototype.complete:
        return _without_shared(prototype)
    if prototype.hints.compiler != "llvm" or prototype.stores_all:
        return prototype
    frame_size = cache(lambda: machine.find_frame_size(code(BEGINNING)))
    prototype = _without_unread_copies(prototype, body, frame_size)
    prototype = _without(prototype, _find_replaced(machine, prototype, frame_size))
    elsewhere = {
        number
        for number, formal in enumerate(prototype.parameters)
        if formal.begins_after or _is_elsewhere(machine, formal, frame_size)
    }
    places = locate_values(machine.name, prototype).parameters if elsewhere else ()
    whole = is_as_declared(prototype)

    def may_be_assigned(formal: Formal, place: Location) -> bool:
        if not _may_be_assigned(machine, formal, place, code):
            return False
        # What the code reads there is what is passed, if all is passed as it is declared.
        passed = place.all_registers if whole and formal.begins_after else ()
        return not (passed and machine.reads_at_entry(code(LARGEST), passed))

    unset = {
        number
        for number, formal in enumerate(prototype.parameters)
        if number in elsewhere and may_be_assigned(formal, places[number])
    }
    if not unset:
        return prototype
    parameters = tuple(
        replace(formal, may_be_unset=True) if number in unset else formal
        for number, formal in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=parameters)


def _without_shared(prototype: Prototype) -> Prototype:
    """``prototype``, which may be a copy of a function for which gcc changed what is passed,
    without the parameters that are in one register: only one of them is passed there."""
    times = Counter(formal.register for formal in prototype.parameters if formal.register >= 0)
    if not any(count > 1 for count in times.values()):
        return prototype
    lost = {"register": -1, "part_registers": (), "missing_reason": OPTIMISED_OUT}
    parameters = (
        replace(formal, **lost) if times[formal.register] > 1 else formal
        for formal in prototype.parameters
    )
    return replace(prototype, parameters=tuple(parameters))


def _without_unread_copies(
    prototype: Prototype, body: FunctionBody, frame_size: FrameSize
) -> Prototype:
    """``prototype`` without structs of which nothing is read: LLVM has callers copy none of them to
    their stack then, but leave the place for it."""
    copies = {
        number: home
        for number, formal in enumerate(prototype.parameters)
        if formal.frame_location is not None
        and formal.size > WORD
        and not (formal.type.computes or formal.type.is_real)  # it is stored, not copied
        and not (formal.may_be_unset or formal.reference)
        and (home := find_home(body.machine, formal.frame_location, frame_size)) is not None
        and home[0] == CALLER_STACK
    }
    if not copies:
        return prototype
    reads = body.machine.find_caller_reads(body.beginning(LARGEST), every=True)
    if reads is None:
        return prototype
    parameters = tuple(
        replace(formal, frame_location=None, may_be_unset=True)
        if number in copies and not is_read(reads, copies[number][1], formal.size)
        else formal
        for number, formal in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=parameters)


def _without(prototype: Prototype, lost: Collection[int]) -> Prototype:
    """``prototype`` without some of its parameters. Those of a function whose callers are not known
    take their registers nevertheless."""
    if not lost:
        return prototype
    shifts = any(formal.may_shift for formal in prototype.parameters)
    reason = LEFT_OUT if prototype.leaves_out else OPTIMISED_OUT if shifts else ""
    parameters = tuple(
        formal.without_location(
            derived_from=-1, may_be_unset=not prototype.leaves_out, missing_reason=reason
        )
        if number in lost
        else formal
        for number, formal in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=parameters)


def _is_shown(formal: Formal) -> bool:
    """Whether a parameter is not lost already: what LLVM has in the caller's frame is not."""
    return not formal.missing_reason or (formal.may_shift and formal.frame_location is not None)


def is_read(reads: Iterable[tuple[int, int]], start: int, size: int) -> bool:
    """Whether some of the bytes from ``start`` on lie in what a function ``reads``."""
    return any(first < start + size and start < end for first, end in reads)


def find_home(machine: Machine, location: tuple[int, int], frame_size: FrameSize) -> Source | None:
    """Return where a variable in memory is at entry, if that may be in the frame of the caller."""
    number, offset = location
    after_call = machine.return_address_size
    base = "" if number == CFA else name_register(machine, number)
    if base == FRAME_POINTER:
        where = offset - after_call
    elif base in ("", STACK_POINTER):
        size = frame_size() if base else 0
        if size is None:
            return FRAME, offset
        where = offset - size + after_call
    else:
        return None
    return (CALLER_STACK, where) if where >= after_call else None


def _find_replaced(machine: Machine, prototype: Prototype, frame_size: FrameSize) -> set[int]:
    """Return the parameters that are, or may be, where another is, or the convention has one: what
    is passed there is assigned to them."""
    parameters = prototype.parameters
    held = [_list_registers(machine, formal) for formal in parameters]
    if prototype.leaves_out:
        # One without a location may be overwritten first: by what is passed in its register.
        lost = any(_is_lost(machine, formal, frame_size) for formal in parameters)
        return {n for n, own in enumerate(held) if own} if lost else set()
    times = Counter(register for registers in held for register in registers)
    shared = {n for n, own in enumerate(held) if any(times[each] > 1 for each in own)}
    if not any(held) or any(formal.may_shift for formal in parameters):
        return shared
    # What is lost has its place nevertheless.
    every = replace(
        prototype, parameters=tuple(replace(formal, missing_reason="") for formal in parameters)
    )
    places = [each.all_registers for each in locate_declared(machine, every)]
    passed = frozenset().union(*places)
    return shared | {n for n, own in enumerate(held) if (own - places[n]) & passed}


def _is_lost(machine: Machine, formal: Formal, frame_size: FrameSize) -> bool:
    """Whether debug information has a parameter nowhere at the entry, or in several pieces."""
    if formal.pieces or not _is_shown(formal):
        return True
    if formal.register >= 0 or formal.derived_from >= 0:
        return False
    home = formal.frame_location
    return home is None or find_home(machine, home, frame_size) is None


def _list_registers(machine: Machine, formal: Formal) -> set[str]:
    """The registers in which debug information has a parameter, or parts of it."""
    if not _is_shown(formal):
        return set()
    pieces = (piece.register for piece in formal.pieces)
    numbers = {formal.register, formal.derived_from, *formal.part_registers, *pieces} - {-1}
    return {name_register(machine, number) for number in numbers}


def _is_elsewhere(machine: Machine, formal: Formal, frame_size: FrameSize) -> bool:
    """Whether a parameter has a location at entry that names no register, and is not in the frame
    of the caller: it is in the function's own frame, or in no place at all."""
    if formal.register >= 0 or formal.part_registers or formal.pieces or formal.may_be_unset:
        return False
    if formal.missing_reason:
        return False
    home = formal.frame_location
    where = find_home(machine, home, frame_size) if home is not None else None
    return where is None or where[0] != CALLER_STACK


def _may_be_assigned(
    machine: Machine, formal: Formal, place: Location, code: Callable[[int], Code]
) -> bool:
    """Whether the first location of a parameter, which is not where it is passed, may be that of
    something else that is assigned to it: unless it names the registers in which the parameter is
    passed, or follows a store of these, and they are not written before; or the function reads it
    where it is passed, in registers or in the frame of the caller: LLVM has no location there
    before it does."""
    pushed = _find_pushed(formal, place)
    if pushed:
        return not _reads_pushed(machine, formal, pushed, code)
    if not formal.begins_after:
        return not machine.reads_at_entry(code(LARGEST), place.registers)
    if not place.words:
        return False
    passed = {
        word.split()[-1] if isinstance(word, str) else word.register
        for word in place.words
        if not isinstance(word, str) or word
    }
    first = code(formal.begins_after)
    if not passed.isdisjoint(machine.find_writes(first.code, first.address)):
        return True
    if formal.first_stored:
        return not machine.reads_all(first.code, passed)
    return {name_register(machine, number) for number in formal.first_registers} != passed


def _find_pushed(formal: Formal, place: Location) -> list[range]:
    """The bytes of the caller's frame, from the stack pointer at entry, in which a parameter is, or
    each of its words, or the pointer to it."""
    if place.memory is not None:
        size = WORD if place.memory.derefs else max(formal.size, 1)
        held = [(place.memory, size)]
    else:
        held = [(word, WORD) for word in place.words if isinstance(word, Fetch)]
    return [range(f.offset, f.offset + size) for f, size in held if f.base == "stack"]


def _reads_pushed(
    machine: Machine, formal: Formal, pushed: Sequence[range], code: Callable[[int], Code]
) -> bool:
    """Whether a function certainly reads what is ``pushed`` for a parameter: what it does not read
    its callers need not store."""
    reads = machine.find_caller_reads(code(LARGEST))
    if reads is None:
        return not formal.first_constant
    return any(is_read(reads, each.start, len(each)) for each in pushed)
