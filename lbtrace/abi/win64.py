"""The Microsoft calling convention of x86-64, as ``__attribute__((ms_abi))`` has it on Linux.

Source: "x64 calling convention" of Microsoft's C++ documentation; where that is silent, what
compilers do: ``WinX86_64ABIInfo`` in clang's ``X86.cpp``, ``function_value_ms_64`` and its
neighbours in gcc's ``i386.cc``. Every parameter has the next of eight-byte slots, the first four
of which are registers, of integers or of floats, with room for them on the stack.
"""

from __future__ import annotations

from lbtrace.abi import Locations
from lbtrace.abi.locations import UNKNOWN, Location, agrees, as_described, dereferenced, if_passed
from lbtrace.machine.x86_64.registers import DWARF_REGISTERS, RETURN_ADDRESS_SIZE
from lbtrace.model import CFA, Fetch, Formal, Prototype

ARGUMENTS = ("cx", "dx", "r8", "r9")
"""Registers of the first parameters; floats among them are in xmm0 to xmm3 instead."""

DWARF_VECTOR = 17
"""The DWARF number of xmm0 (System V psABI, figure 3.36)."""

PASSING = frozenset({1, 2, 8, 9, *range(DWARF_VECTOR, DWARF_VECTOR + len(ARGUMENTS))})
"""See `lbtrace.abi.CallingConvention`."""

SLOT = 8

WHOLE = frozenset({1, 2, 4, 8})
"""Sizes of values that a slot holds; of others it holds the address."""


def places(prototype: Prototype) -> Locations:
    """Return where the values of ``prototype`` lie."""
    gcc = prototype.hints.compiler == "gcc"
    result, hidden = _result(prototype.result, gcc=gcc)
    taken = SlotAssigner(hidden, gcc=gcc)
    parameters = tuple(if_passed(formal, taken.take(formal)) for formal in prototype.parameters)
    return Locations(parameters, result, taken.contradicted)


def _result(formal: Formal | None, *, gcc: bool) -> tuple[Location, bool | None]:
    """Where the result lies, and whether a hidden pointer to it takes the first slot.

    The last is None where that is unknown.
    """
    if formal is None or not formal.type.has_values:
        return Location(), False
    if formal.missing_reason or not (formal.reference or (formal.scalars and formal.size)):
        return Location(reason=formal.missing_reason or UNKNOWN), None
    words = () if formal.reference else _result_words(formal, gcc=gcc)
    if words:
        return Location(words=words), False
    if formal.result_pointer_lost:
        return Location(memory=Fetch(base="kept", register=ARGUMENTS[0])), True
    return Location(memory=Fetch(register="ax")), True


def _result_words(formal: Formal, *, gcc: bool) -> tuple[Fetch | str, ...]:
    """The registers of a result; none where it is returned in memory, as gcc does with floats
    that are wide."""
    if _is_float(formal):
        return ("float in xmm0",)
    if formal.size in WHOLE:
        return (Fetch(register="ax"),)
    if formal.type.is_real and not gcc:
        x87 = any(scalar.kind == "x87" for scalar in formal.scalars or ())
        return ("float in st0" if x87 else "float in xmm0",) * 2
    wide = formal.type.computes  # an __int128
    return ("float in xmm0",) * 2 if wide else ()


class SlotAssigner:
    """The slots that earlier parameters left."""

    def __init__(self, hidden: bool | None, *, gcc: bool) -> None:
        self._next = int(bool(hidden))
        self._gcc = gcc
        self._lost = UNKNOWN if hidden is None else ""
        self.contradicted = False
        """Whether debug information has a parameter elsewhere."""

    def take(self, formal: Formal) -> Location:
        """Return where ``formal`` lies."""
        if formal.missing_reason:
            return Location(reason=formal.missing_reason)
        if _is_float128(formal) and not self._gcc:  # clang may give it one or none
            self._lost = self._lost or f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
            return Location(reason=UNKNOWN)
        number, self._next = self._next, self._next + 1
        if self._lost:
            return Location(reason=self._lost)
        place = _slot(number, formal)
        self.contradicted |= _is_elsewhere(formal, place, number)
        if formal.pieces and place.words:
            place = as_described(formal, place, _declared_register_name)
        if not formal.reference and formal.size in WHOLE:
            return Location(reason=UNKNOWN) if formal.scalars is None else place
        if place.memory is not None:
            return Location(memory=dereferenced(place.memory))
        word = place.words[0]
        return Location(reason=word) if isinstance(word, str) else Location(memory=word)


def _is_float128(formal: Formal) -> bool:
    wide = formal.size == 16 and formal.type.is_real
    return wide and any(scalar.kind == "float" for scalar in formal.scalars or ())


def _is_float(formal: Formal) -> bool:
    """Whether vector registers hold it: a float alone, but no record of one."""
    return formal.type.is_real and formal.size in WHOLE and not formal.reference


def _slot(number: int, formal: Formal) -> Location:
    """What is in a slot: ``formal``, or its address."""
    if number >= len(ARGUMENTS):
        offset = RETURN_ADDRESS_SIZE + SLOT * number
        return Location(memory=Fetch(base="stack", offset=offset))
    if _is_float(formal):
        return Location(words=(f"float in xmm{number}",))
    return Location(words=(Fetch(register=ARGUMENTS[number]),))


def _is_elsewhere(formal: Formal, place: Location, number: int) -> bool:
    """Whether debug information has ``formal`` not in its slot, nor in the callee's frame."""
    named = formal.address if formal.address in PASSING else formal.register
    if named >= 0:
        return not agrees(place, [_declared_register_name(named)])
    base, offset = formal.frame_location or (CFA, -1)
    return base == CFA and offset >= 0 and offset != SLOT * number


def _declared_register_name(number: int) -> str:
    """The name that a location uses for the register with this DWARF number."""
    if 0 <= number < len(DWARF_REGISTERS):
        return DWARF_REGISTERS[number]
    return f"float in xmm{number - DWARF_VECTOR}"
