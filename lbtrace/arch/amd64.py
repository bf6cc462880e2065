"""The System V calling convention of x86-64.

Source: System V Application Binary Interface, AMD64 Architecture Processor
Supplement, sections 3.2.3 (parameter passing) and 3.6.2 (DWARF registers).
"""

from __future__ import annotations

from collections.abc import Iterable

from lbtrace.arch import ExitFinder, Passing, Planner
from lbtrace.model import Fetch, Formal, Opaque, Prototype, Scalar, Value, Void

ARGUMENTS = ("di", "si", "dx", "cx", "r8", "r9")
"""Integer arguments, in order."""

RESULT = "ax"
VECTORS = 8
"""Arguments that vector registers take: xmm0 to xmm7."""

DWARF_REGISTERS = (
    *("ax", "dx", "cx", "bx", "si", "di", "bp", "sp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
"""Integer registers by their DWARF number (figure 3.36)."""

UNKNOWN = "how it is passed is unknown"


def planner() -> Planner:
    """A chooser of probe places in x86-64 code."""
    from lbtrace.arch.amd64_sites import Amd64Planner  # late: imports iced-x86

    return Amd64Planner()


def exit_finder() -> ExitFinder:
    """A finder of the places at which x86-64 functions are left."""
    from lbtrace.arch.amd64_returns import Amd64ExitFinder  # late: imports iced-x86

    return Amd64ExitFinder()


def passing(prototype: Prototype, limit: int) -> Passing:
    """How the values of ``prototype`` travel, at most ``limit`` parameters with a slot.

    A parameter whose place cannot be told makes the places of those behind
    it unknown as well, unless debug information names their registers.
    """
    result, result_fetches, hidden = _result(prototype.result)
    places = _Places(hidden)
    parameters: list[Value] = []
    fetches: list[Fetch] = []
    cut = 0
    for formal in prototype.parameters:
        fetch, reason = places.take(formal)
        if fetch and isinstance(formal.type, Opaque):
            fetch, reason = None, ""
        if fetch and len(fetches) >= limit:
            fetch, reason, cut = None, f"only {limit} values fit an event", cut + 1
        slot = len(fetches) if fetch else -1
        if fetch:
            fetches.append(fetch)
        parameters.append(Value(formal.name, formal.type, slot, reason))
    return Passing(tuple(parameters), result, tuple(fetches), result_fetches, cut)


def _result(formal: Formal | None) -> tuple[Value | None, tuple[Fetch, ...], bool | None]:
    """The result, its fetches, and whether a hidden pointer to it takes the first register.

    The last is None where that cannot be told.
    """
    if formal is None or isinstance(formal.type, Void):
        return None, (), False
    words = ["memory"] if formal.reference else classify(formal.size, formal.scalars)
    if not isinstance(formal.type, Opaque):
        return Value(formal.name, formal.type, 0), (Fetch(register=RESULT),), False
    reason = ""
    if words == ["float"]:
        reason = "float in xmm0"
    elif formal.scalars and formal.scalars[0].kind == "x87":
        reason = "float in st0"
    # A lone long double, simple or complex, comes back on the x87 stack, not in memory.
    hidden = words == ["memory"] and not (
        formal.scalars and all(s.kind == "x87" for s in formal.scalars)
    )
    return Value(formal.name, formal.type, -1, reason), (), None if words is None else hidden


class _Places:
    """The registers and stack slots not yet taken by earlier parameters."""

    def __init__(self, hidden: bool | None) -> None:
        self.integers = 1 if hidden else 0
        self.vectors = 0
        self.stack = 8  # behind the return address
        self.lost = UNKNOWN if hidden is None else ""

    def take(self, formal: Formal) -> tuple[Fetch | None, str]:
        """Where ``formal`` lies, or why it cannot be read."""
        words = ["integer"] if formal.reference else classify(formal.size, formal.scalars)
        if words is None and not self.lost:
            self.lost = f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
            return None, UNKNOWN
        if formal.lost:
            return None, formal.lost
        place, reason = self._assign(words or [], formal.scalars or ())
        if words == ["integer"] and 0 <= formal.register < len(DWARF_REGISTERS):
            return Fetch(register=DWARF_REGISTERS[formal.register]), ""
        if self.lost:
            return None, self.lost
        return place, reason

    def _assign(self, words: list[str], scalars: Iterable[Scalar]) -> tuple[Fetch | None, str]:
        integers, vectors = words.count("integer"), words.count("float")
        if (
            "memory" in words
            or self.integers + integers > len(ARGUMENTS)
            or self.vectors + vectors > VECTORS
        ):
            return self._push(scalars)
        place, reason = None, ""
        if words == ["integer"]:
            place = Fetch(register=ARGUMENTS[self.integers])
        elif words == ["float"]:
            reason = f"float in xmm{self.vectors}"
        self.integers += integers
        self.vectors += vectors
        return place, reason

    def _push(self, scalars: Iterable[Scalar]) -> tuple[Fetch | None, str]:
        scalars = tuple(scalars)
        if any(s.size == 16 for s in scalars):
            self.stack = -(-(self.stack - 8) // 16) * 16 + 8
        place = Fetch(base="stack", offset=self.stack, read="integer", size=8)
        size = max((s.offset + s.size for s in scalars), default=8)
        self.stack += -(-size // 8) * 8
        return place, ""


def classify(size: int, scalars: tuple[Scalar, ...] | None) -> list[str] | None:
    """The class of each eightbyte: ``integer`` or ``float``; ``["memory"]``; ``[]`` for nothing.

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
    return words if all(words) else None
