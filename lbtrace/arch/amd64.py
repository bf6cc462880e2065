"""The System V calling convention of x86-64.

Source: System V Application Binary Interface, AMD64 Architecture Processor
Supplement, sections 3.2.3 (parameter passing) and 3.6.2 (DWARF registers).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

from lbtrace.arch import SHALLOW, ExitFinder, Passing, Places, Planner, StackSwitch, fetched
from lbtrace.arch.places import Detail, Place, apart, dereferenced, told
from lbtrace.model import Fetch, Formal, Prototype, Scalar, Void

ARGUMENTS = ("di", "si", "dx", "cx", "r8", "r9")
"""Integer arguments, in order."""

RESULTS = ("ax", "dx")
"""Integer results, in order."""

VECTORS = 8
"""Arguments that vector registers take: xmm0 to xmm7."""

DWARF_REGISTERS = (
    *("ax", "dx", "cx", "bx", "si", "di", "bp", "sp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
"""Integer registers by their DWARF number (figure 3.36)."""

DWARF_VECTOR = 17
"""The DWARF number of xmm0."""

REGISTERS = (*DWARF_REGISTERS, "ip", "flags")
"""Registers that can be read."""

CALL_SINKS = 8
"""A call pushes the return address."""

UNKNOWN = "how it is passed is unknown"


def planner() -> Planner:
    """A chooser of probe places in x86-64 code."""
    from lbtrace.arch.amd64_sites import Amd64Planner  # late: imports iced-x86

    return Amd64Planner()


def exit_finder() -> ExitFinder:
    """A finder of the places at which x86-64 functions are left."""
    from lbtrace.arch.amd64_returns import Amd64ExitFinder  # late: imports iced-x86

    return Amd64ExitFinder()


def stack_switches(code: bytes, address: int) -> Iterator[StackSwitch]:
    """Where ``code`` at ``address`` takes up another stack."""
    from lbtrace.arch import amd64_switch  # late: imports iced-x86

    return amd64_switch.stack_switches(code, address)


def behind_calls(
    code: bytes, address: int, targets: Collection[int], starts: Sequence[int]
) -> Iterator[int]:
    """The addresses behind the calls of ``targets`` in ``code`` at ``address``."""
    from lbtrace.arch import amd64_calls  # late: imports iced-x86

    return amd64_calls.behind_calls(code, address, targets, starts)


def passing(prototype: Prototype, limit: int, detail: Detail = SHALLOW) -> Passing:
    """How the values of ``prototype`` travel; ``limit`` and ``detail`` bound what is fetched."""
    return fetched(prototype, places(prototype), limit, detail)


def places(prototype: Prototype) -> Places:
    """Where the values of ``prototype`` lie.

    A parameter whose place cannot be told makes the places of those behind
    it unknown as well, unless debug information names their registers.
    """
    result, hidden = _result(prototype.result)
    taken = _Taken(hidden)
    parameters = tuple(told(formal, taken.take(formal)) for formal in prototype.parameters)
    return Places(parameters, result)


def _result(formal: Formal | None) -> tuple[Place, bool | None]:  # noqa: PLR0911
    """Where the result lies, and whether a hidden pointer to it takes the first register.

    The last is None where that cannot be told.
    """
    if formal is None or isinstance(formal.type, Void):
        return Place(), False
    if formal.lost:
        return Place(reason=formal.lost), None
    # A lone long double, simple or complex, comes back on the x87 stack, not in memory.
    if not formal.reference and formal.scalars and all(s.kind == "x87" for s in formal.scalars):
        return Place(reason="float in st0"), False
    classes = ["memory"] if formal.reference else classify(formal.size, formal.scalars)
    if classes is None or (formal.split and _needs_three(formal)):
        return Place(reason=UNKNOWN), None
    if formal.split and len(formal.scalars or ()) > 1 and classes != ["memory"]:
        integers, vectors = list(RESULTS), ["xmm0", "xmm1"]
        return apart(
            formal, lambda f: _words(classify(f.size, f.scalars) or [], integers, vectors)
        ), False
    if classes == ["memory"]:
        if formal.forgotten:
            return Place(memory=Fetch(base="kept", register=ARGUMENTS[0])), True
        return Place(memory=Fetch(register=RESULTS[0])), True
    integers, vectors = list(RESULTS), ["xmm0", "xmm1"]
    return _words(classes, integers, vectors), False


def _needs_three(formal: Formal) -> bool:
    """Whether it is a pair with an ``i128`` of rustc before 1.87: where such come back changed
    in 1.84 or so (rust-lang/rust pull request 131211)."""
    scalars = formal.scalars or ()
    return len(scalars) > len(RESULTS) or (formal.shadowed and len(scalars) > 1)


def _words(classes: list[str], integers: list[str], vectors: list[str]) -> Place:
    """A value in registers: it takes the next of each kind."""
    words: list[Fetch | str] = []
    for kind in classes:
        if kind == "integer":
            words.append(Fetch(register=integers.pop(0)))
        elif kind == "up":
            words.append(words[-1])
        else:
            words.append(f"float in {vectors.pop(0)}")
    return Place(words=tuple(words))


class _Taken:
    """The registers and stack slots that earlier parameters left."""

    def __init__(self, hidden: bool | None) -> None:
        self._integers = list(ARGUMENTS[1 if hidden else 0 :])
        self._vectors = [f"xmm{n}" for n in range(VECTORS)]
        self._stack = 8  # behind the return address
        self._believed = False
        self._lost = UNKNOWN if hidden is None else ""

    def take(self, formal: Formal) -> Place:  # noqa: PLR0911
        """Where ``formal`` lies."""
        classes = ["integer"] if formal.reference else classify(formal.size, formal.scalars)
        if classes is None and not self._lost:
            self._lost = f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
            return Place(reason=formal.lost or UNKNOWN)
        if formal.lost:
            return Place(reason=formal.lost)
        if formal.split and len(formal.scalars or ()) > 1:
            # clang before 18 counts no register for an __int128 that takes the last one and
            # eight bytes of the stack: it still believes in that register.
            believed = self._believed or len(self._integers) == 1
            place = apart(formal, self.take)
            self._believed = believed
            if self._lost:
                return Place(reason=self._lost)
        else:
            place = self._assign(classes or [], formal)
        if classes == ["integer"] and 0 <= formal.register < len(DWARF_REGISTERS):
            place = Place(words=(Fetch(register=DWARF_REGISTERS[formal.register]),))
        elif classes == ["float"] and 0 <= formal.register - DWARF_VECTOR < VECTORS:
            place = Place(words=(f"float in xmm{formal.register - DWARF_VECTOR}",))
        elif self._lost:
            return Place(reason=self._lost)
        if formal.reference and place.words:
            return Place(memory=cast(Fetch, place.words[0]))
        if formal.reference and place.memory:
            return Place(memory=dereferenced(place.memory))
        return place

    def _assign(self, classes: list[str], formal: Formal) -> Place:
        integers, floats = classes.count("integer"), classes.count("float")
        if self._believed and integers == 1 and floats <= len(self._vectors):
            self._believed = False
            if floats:
                return self._parted(classes)
        if formal.shadowed and integers > len(self._integers):
            self._believed = len(self._integers) == 1
            self._integers.clear()
        if "memory" in classes or integers > len(self._integers) or floats > len(self._vectors):
            return self._push(8 if formal.reference else formal.size, formal.scalars or ())
        return _words(classes, self._integers, self._vectors)

    def _parted(self, classes: list[str]) -> Place:
        """A struct that was to travel in two registers, of which that for the integer is
        not there: it lies on the stack."""
        at = Fetch(base="stack", offset=self._stack, read="integer")
        self._stack += 8
        vector = f"float in {self._vectors.pop(0)}"
        return Place(words=tuple(at if kind == "integer" else vector for kind in classes))

    def _push(self, size: int, scalars: tuple[Scalar, ...]) -> Place:
        if any(s.size == 16 for s in scalars):
            self._stack = -(-(self._stack - 8) // 16) * 16 + 8
        place = Place(memory=Fetch(base="stack", offset=self._stack))
        self._stack += -(-size // 8) * 8
        return place


def classify(size: int, scalars: tuple[Scalar, ...] | None) -> list[str] | None:
    """The class of each eightbyte: ``integer``, ``float``, or ``up`` for the upper half
    of the vector register before it; ``["memory"]``; ``[]`` for nothing.

    None where it cannot be told. Section 3.2.3, "Classification".
    """
    if scalars is None:
        return None
    if not scalars:
        return []
    if size > 16 or any(s.kind == "x87" or s.offset % s.size for s in scalars):
        return ["memory"]
    if any(s.offset < 0 or s.offset + s.size > size for s in scalars):
        return None
    words = [""] * -(-size // 8)
    for scalar in scalars:
        for word in range(scalar.offset // 8, -(-(scalar.offset + scalar.size) // 8)):
            if scalar.kind == "integer" or not words[word]:
                words[word] = scalar.kind
        if scalar.kind == "float" and scalar.size == 16:
            words[scalar.offset // 8 + 1] = "up"
    return words if all(words) else None
