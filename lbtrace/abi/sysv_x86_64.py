"""The System V calling convention of x86-64.

Source: System V Application Binary Interface, AMD64 Architecture Processor
Supplement, sections 3.2.3 (parameter passing) and 3.6.2 (DWARF registers).
"""

from __future__ import annotations

from typing import cast

from lbtrace.abi import Locations
from lbtrace.abi.locations import (
    CHANGED,
    OPTIMISED_OUT,
    UNKNOWN,
    Location,
    agrees,
    apart,
    as_described,
    dereferenced,
    if_passed,
)
from lbtrace.abi.shifts import Shifts
from lbtrace.machine.x86_64.registers import DWARF_REGISTERS, RETURN_ADDRESS_SIZE
from lbtrace.model import CFA, Fetch, Formal, Prototype, Scalar

ARGUMENTS = ("di", "si", "dx", "cx", "r8", "r9")
"""Integer arguments, in order."""

RESULTS = ("ax", "dx")
"""Integer results, in order."""

VECTORS = 8
"""Arguments that vector registers take: xmm0 to xmm7."""

DWARF_VECTOR = 17
"""The DWARF number of xmm0."""

PASSING = frozenset({1, 2, 4, 5, 8, 9, *range(DWARF_VECTOR, DWARF_VECTOR + VECTORS)})
"""See `lbtrace.abi.CallingConvention`: rdx, rcx, rsi, rdi, r8, r9, xmm0 to xmm7."""

ENTRY_TO = {CFA: RETURN_ADDRESS_SIZE, DWARF_REGISTERS.index("bp"): -8}
"""What variables lie relative to, from the stack pointer at entry: a frame pointer is pushed
first."""


def places(prototype: Prototype) -> Locations:
    """Return where the values of ``prototype`` lie.

    A parameter whose location is unknown makes the locations of those after it unknown as well,
    unless debug information names their registers. There is no sign that a function of gcc has
    another convention (``ms_abi``) but parameters in other registers than this one's, or in their
    caller's memory: nothing else is known of it then.
    """
    result, hidden = _result(prototype.result)
    taken = ArgumentAssigner(hidden)
    parameters = tuple(if_passed(formal, taken.take(formal)) for formal in prototype.parameters)
    contradicted = taken.foreign and not any(
        formal.missing_reason for formal in prototype.parameters
    )
    return Locations(parameters, result, contradicted)


def _result(formal: Formal | None) -> tuple[Location, bool | None]:  # noqa: PLR0911 - a return for each case
    """Where the result lies, and whether a hidden pointer to it takes the first register.

    The last is None where that is unknown.
    """
    if formal is None or not formal.type.has_values:
        return Location(), False
    if formal.missing_reason:
        separate = formal.passed_separately and (_needs_three(formal) or not formal.scalars)
        known = not (formal.reference or separate)
        classes = classify(formal.size, formal.scalars) if known else None
        hidden = False if classes and "memory" not in classes else None
        return Location(reason=formal.missing_reason), hidden
    # A lone long double, simple or complex, comes back on the x87 stack, not in memory.
    if not formal.reference and formal.scalars and all(s.kind == "x87" for s in formal.scalars):
        return Location(reason="float in st0"), False
    classes = ["memory"] if formal.reference else classify(formal.size, formal.scalars)
    if classes is None or (formal.passed_separately and _needs_three(formal)):
        # What fits in a register comes back in one, of whatever kind.
        return Location(
            reason=UNKNOWN
        ), False if formal.passed_separately and formal.size <= 8 else None
    if formal.passed_separately and len(formal.scalars or ()) > 1 and classes != ["memory"]:
        integers, vectors = list(RESULTS), ["xmm0", "xmm1"]
        return apart(
            formal, lambda f: _words(classify(f.size, f.scalars) or [], integers, vectors)
        ), False
    if classes == ["memory"]:
        if formal.result_pointer_lost:
            return Location(memory=Fetch(base="kept", register=ARGUMENTS[0])), True
        return Location(memory=Fetch(register=RESULTS[0])), True
    integers, vectors = list(RESULTS), ["xmm0", "xmm1"]
    return _words(classes, integers, vectors), False


def _needs_three(formal: Formal) -> bool:
    """Whether it is a pair with an ``i128`` of rustc before 1.87: where such come back changed
    in 1.84 or so (rust-lang/rust pull request 131211)."""
    scalars = formal.scalars or ()
    return len(scalars) > len(RESULTS) or (formal.registers_miscounted and len(scalars) > 1)


def _words(classes: list[str], integers: list[str], vectors: list[str]) -> Location:
    """A value in registers: it takes the next of each kind."""
    words: list[Fetch | str] = []
    for kind in classes:
        if kind == "integer":
            words.append(Fetch(register=integers.pop(0)))
        elif kind == "up":
            words.append(words[-1])
        else:
            words.append(f"float in {vectors.pop(0)}")
    return Location(words=tuple(words))


class ArgumentAssigner:
    """The registers and stack slots that earlier parameters left.

    clang decides by a count of its own whether a struct travels in registers
    (``X86_64ABIInfo::computeInfo``). It counts none for a ``nullptr_t``, nor, before version 20,
    as the convention wants for an ``__int128`` that needs more than are left. From where that
    matters on, nothing is known.
    """

    def __init__(self, hidden: bool | None) -> None:
        self._integers = list(ARGUMENTS[1 if hidden else 0 :])
        self._vectors = [f"xmm{n}" for n in range(VECTORS)]
        self._stack = 8  # after the return address
        self._uncounted = 0
        self._lost = UNKNOWN if hidden is None else ""
        self._shifts = Shifts(_declared_register)
        self.foreign = False
        """Whether debug information contradicts the convention."""

    def take(self, formal: Formal) -> Location:
        """Return where ``formal`` lies."""
        classes = ["integer"] if formal.reference else classify(formal.size, formal.scalars)
        if classes is None and not self._lost:
            self._lost = f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
            return Location(reason=formal.missing_reason or UNKNOWN)
        if formal.missing_reason:
            # What is not passed as declared may be passed elsewhere.
            pushed = _pushed(formal) if formal.missing_reason in (CHANGED, OPTIMISED_OUT) else None
            return pushed or Location(reason=formal.missing_reason)
        if formal.passed_separately and len(formal.scalars or ()) > 1:
            place = apart(formal, self._take_part)
            if self._lost and not formal.pieces:
                return Location(reason=self._lost)
        else:
            place = self._assign(classes or [], formal)
        if not self._lost and not self._shifts.follow(formal, place):
            self._lost = self._shifts.reason
        self.foreign |= not self._lost and _is_foreign(formal, place)
        place = self._as_described(formal, classes or [], place)
        if formal.reference and place.words:
            return Location(memory=cast(Fetch, place.words[0]))
        if formal.reference and place.memory:
            return Location(memory=dereferenced(place.memory))
        return place

    def _take_part(self, part: Formal) -> Location:
        """Where the convention has one of the numbers of a value that travel separately."""
        classes = classify(part.size, part.scalars)
        return Location(reason=UNKNOWN) if classes is None else self._assign(classes, part)

    def _as_described(self, formal: Formal, classes: list[str], place: Location) -> Location:
        """``place``, which the convention has, with what debug information says of it."""
        if classes == ["integer"] and 0 <= formal.register < len(DWARF_REGISTERS):
            return Location(words=(Fetch(register=DWARF_REGISTERS[formal.register]),))
        if classes == ["float"] and 0 <= formal.register - DWARF_VECTOR < VECTORS:
            return Location(words=(f"float in xmm{formal.register - DWARF_VECTOR}",))
        agreed = agrees(place, [_declared_register(number) for number in formal.part_registers])
        unreliable = self._lost or self._shifts.why_unreliable(place)
        pushed = _pushed(formal) if unreliable else None
        if pushed:
            self._shifts.confirm(place, pushed)
            return pushed
        if formal.pieces and place.words:
            place = as_described(formal, place, _declared_register, unreliable)
        elif unreliable or not agreed:
            place = Location(reason=unreliable or UNKNOWN)
        if not agreed and not self._lost:
            # LLVM may promote what the convention has on the stack to parameters of its own.
            self._lost = UNKNOWN
        return place

    def _assign(self, classes: list[str], formal: Formal) -> Location:
        integers, floats = classes.count("integer"), classes.count("float")
        left = len(self._integers)
        if floats > len(self._vectors) or "memory" in classes:
            return self._push(formal)
        if integers > left:
            uncertain = formal.registers_miscounted or integers <= left + self._uncounted
            if uncertain and len(classes) > 1:
                self._lost = f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
                return Location(reason=UNKNOWN)
            return self._push(formal)
        self._uncounted += formal.registers_miscounted and integers == 1
        return _words(classes, self._integers, self._vectors)

    def _push(self, formal: Formal) -> Location:
        wide = any(s.size == 16 for s in formal.scalars or ()) and not formal.reference
        if wide and not formal.packed and _home(formal) != self._stack:
            self._stack = -(-(self._stack - 8) // 16) * 16 + 8
        place = Location(memory=Fetch(base="stack", offset=self._stack))
        self._stack += -(-(8 if formal.reference else formal.size) // 8) * 8
        return place


def _home(formal: Formal) -> int | None:
    """Where debug information has ``formal``, from the stack pointer at entry. It shows what no
    layout does: that a record was declared as packed."""
    base, offset = formal.frame_location or (None, 0)
    return offset + ENTRY_TO[base] if base in ENTRY_TO else None


def _pushed(formal: Formal) -> Location | None:
    """Where debug information has ``formal`` if its caller pushed it: LLVM gives one location there
    for the whole of a function only to what is passed in it."""
    home = _home(formal) or 0
    if home < RETURN_ADDRESS_SIZE or formal.reference or not formal.may_shift:
        return None
    return Location(memory=Fetch(base="stack", offset=home))


def _is_foreign(formal: Formal, place: Location) -> bool:
    """Whether debug information has ``formal`` elsewhere than in its ``place``: in another
    register, where a register points, or elsewhere on the caller's stack."""
    if formal.register >= 0 and place.words:
        return not agrees(place, [_declared_register(formal.register)])
    base, offset = formal.frame_location or (CFA, -1)
    if base == CFA and offset >= 0:
        if place.memory is None:
            return bool(place.words)  # empty ones have neither, wherever they are said to be
        return offset + ENTRY_TO[CFA] != place.memory.offset
    return bool(place.words) and formal.address in PASSING


def _declared_register(number: int) -> str:
    """What a place calls the register with a DWARF number."""
    if 0 <= number < len(DWARF_REGISTERS):
        return DWARF_REGISTERS[number]
    return f"float in xmm{number - DWARF_VECTOR}"


def classify(size: int, scalars: tuple[Scalar, ...] | None) -> list[str] | None:
    """Return the class of each eightbyte: ``integer``, ``float``, or ``up`` for the upper half
    of the vector register before it; ``["memory"]``; ``[]`` for nothing.

    None where it is unknown. Section 3.2.3, "Classification".
    """
    if scalars is None:
        return None
    if not scalars:
        return []
    if size > 16 or any(s.offset % s.size or s.kind == "memory" for s in scalars):
        return ["memory"]
    if any(s.offset < 0 or s.offset + s.size > size for s in scalars):
        return None
    words = [""] * -(-size // 8)
    for scalar in scalars:
        first = scalar.offset // 8
        for word in range(first, -(-(scalar.offset + scalar.size) // 8)):
            upper = scalar.kind == "float" and word > first
            words[word] = _merged(words[word], "up" if upper else scalar.kind)
    if "x87" in words:
        return ["memory"]
    if words[-1] == "up" and words[0] != "float":
        words[-1] = "float"
    return words if all(words) else None


def _merged(one: str, other: str) -> str:
    """The class of an eightbyte in which values of two classes lie, as in a union."""
    if one in ("", other):
        return other
    return next((kind for kind in ("integer", "x87") if kind in (one, other)), "float")
