"""Where a variable lies at one address of the code: expressions of DWARF as locations.

Source: DWARF 5, sections 2.5 and 2.6, and GNU's operations of DWARF 4. What a probe cannot
compute has no location, but a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.dwarf_registers import find_register, program_counter
from lbtrace.abi.locations import DEREFS, OPTIMISED_OUT, WORD, Location, dereferenced, moved
from lbtrace.dwarf.reader.entries import Unit
from lbtrace.dwarf.reader.forms import sleb, uleb
from lbtrace.model import Fetch, Scalar

DAMAGED = "its location is damaged"
"""Not only by accident: Go up to 1.21 may describe the pointer of a slice twice."""

TOO_COMPLEX = "computed as no probe can"
THREAD_LOCAL = "thread-local"

ONE_PART = "only a part of it is known, and not which"
"""Go's optimiser takes values of several words apart, and describes those of which it has kept but
one as if they were nothing else (``cmd/compile/internal/ssa/debug.go``, ``writePendingEntry``)."""

ADDR, DEREF, CONST1U, CONSTU, CONSTS, DUP, DROP = 0x03, 0x06, 0x08, 0x10, 0x11, 0x12, 0x13
AND, MINUS, MUL, NEG, NOT, OR, PLUS, PLUS_UCONST = 0x1A, 0x1C, 0x1E, 0x1F, 0x20, 0x21, 0x22, 0x23
SHL, LIT0, REG0, BREG0, REGX, FBREG, BREGX = 0x24, 0x30, 0x50, 0x70, 0x90, 0x91, 0x92
PIECE, DEREF_SIZE, NOP, TLS, CALL_FRAME_CFA = 0x93, 0x94, 0x96, 0x9B, 0x9C
BIT_PIECE, IMPLICIT_VALUE, STACK_VALUE, IMPLICIT_POINTER = 0x9D, 0x9E, 0x9F, 0xA0
ADDRX, CONSTX, ENTRY, CONVERT, GNU_TLS = 0xA1, 0xA2, 0xA3, 0xA8, 0xE0
GNU_ENTRY, GNU_ADDR_INDEX, GNU_CONST_INDEX, GNU_IMPLICIT_POINTER = 0xF3, 0xFB, 0xFC, 0xF2

FIXED = {0x08: (1, False), 0x09: (1, True), 0x0A: (2, False), 0x0B: (2, True)} | {
    **{0x0C: (4, False), 0x0D: (4, True), 0x0E: (8, False), 0x0F: (8, True)},
}
"""DW_OP_const1u to DW_OP_const8s: size and sign of the operand."""

ARITHMETIC: dict[int, Callable[[int, int], int]] = {
    AND: lambda a, b: a & b,
    OR: lambda a, b: a | b,
    MUL: lambda a, b: a * b,
    PLUS: lambda a, b: a + b,
    MINUS: lambda a, b: a - b,
    SHL: lambda a, b: a << min(b, 64),
}

LONGEST = 4096
"""Operations of an expression."""


class Unreadable(Exception):
    """A location that no probe can read, for this reason."""


class Place(NamedTuple):
    """What is known where the program is: the ``unit``, the ``machine``, the ``address`` of the
    instruction, what computes the frame base, the CFA, and the ``view`` of the address, if any.
    ``line``: it is that of a line, of which several may begin at the instruction.
    ``thread_local`` gives the address at an offset of the file's thread-local variables."""

    unit: Unit
    machine: str
    address: int
    frame_base: bytes
    cfa: Callable[[], Fetch]
    view: int = -1
    line: bool = False
    thread_local: Callable[[int], Fetch] | None = None


class Part(NamedTuple):
    """A value, or a piece of one of ``size`` bytes (0: all): in ``memory`` at the address that
    this fetches, or a ``word`` (or why it cannot be had)."""

    memory: Fetch | None
    word: Fetch | str
    size: int = 0


def locate(
    expression: bytes, place: Place, scalars: Sequence[Scalar] | None, *, split: bool = False
) -> Location:
    """The location that ``expression`` gives to a value made of ``scalars``. ``split``: if these
    are several, nothing but pieces says where they are (`ONE_PART`)."""
    if not expression:
        return Location(reason=OPTIMISED_OUT)
    try:
        parts = _Evaluation(expression, place).parts()
    except Unreadable as error:
        return Location(reason=str(error))
    except (IndexError, KeyError, ValueError):
        return Location(reason=DAMAGED)
    if len(parts) == 1 and not parts[0].size:
        if split and scalars and (len(scalars) > 1 or scalars[0].size > WORD):
            return Location(reason=ONE_PART)
        size = max((s.offset + s.size for s in scalars or ()), default=WORD)
        return _undivided(parts[0]._replace(size=size), place)
    words = [TOO_COMPLEX if _is_lost_load(part, place) else part.word for part in parts]
    parts = [part._replace(word=word) for part, word in zip(parts, words, strict=True)]
    return _joined(parts, scalars, exact=split)


def _undivided(part: Part, place: Place) -> Location:
    """The location of a value in one piece, all of which is the ``part``."""
    if part.memory is not None:
        return Location(memory=part.memory)
    if _is_lost_load(part, place):
        return Location(reason=TOO_COMPLEX)
    return Location(words=(part.word,)) if part.word != OPTIMISED_OUT else OUT


def _is_lost_load(part: Part, place: Place) -> bool:
    """Whether a part is computed from an address in the frame, but is too small for an address.
    clang 14 leaves out the load of what it spilled where it also truncates that."""
    word = part.word
    if part.memory is not None or isinstance(word, str) or not 0 < part.size < WORD:
        return False
    is_address = word.base == "register" and word.read == "value" and not word.derefs
    return is_address and word.register in _frame_registers(place)


def _frame_registers(place: Place) -> set[str]:
    """The registers that hold addresses of the frame, and nothing else."""
    registers = {"sp"}
    if len(place.frame_base) == 1 and REG0 <= place.frame_base[0] < BREG0:
        held = find_register(place.machine, place.frame_base[0] - REG0)
        registers |= set() if isinstance(held, str) else {held.register}
    return registers


OUT = Location(reason=OPTIMISED_OUT)


def constant(value: int) -> Location:
    """The location of a value that is always the same."""
    return Location(words=(_number(value),))


def _number(value: int) -> Fetch:
    value &= (1 << 64) - 1
    return Fetch(base="constant", offset=value - (1 << 64) if value >> 63 else value)


def _joined(parts: Sequence[Part], scalars: Sequence[Scalar] | None, *, exact: bool) -> Location:
    """The location of a value in pieces, each of its numbers in one of them; where ``exact``, in
    one of its own."""
    if exact and [part.size for part in parts] != [scalar.size for scalar in scalars or ()]:
        return Location(reason=DAMAGED)
    words: list[Fetch | str] = []
    starts: list[int] = []
    bounds: list[tuple[int, int]] = []
    at = 0
    for memory, word, size in parts:
        bounds.append((at, at + size))
        for into in range(0, size, WORD):
            starts.append(at + into)
            if memory is not None:
                rest = min(WORD, size - into)
                words.append(replace(moved(memory, into), read="integer", size=rest))
            else:
                words.append(word if not into else TOO_COMPLEX)
        at += size
    if all(word == OPTIMISED_OUT for word in words):
        return OUT
    whole = scalars is not None and all(
        any(low <= s.offset and s.offset + s.size <= high for low, high in bounds) for s in scalars
    )
    if not whole:
        return Location(reason=TOO_COMPLEX)
    return Location(words=tuple(words), starts=tuple(starts))


class _Evaluation:
    """Carries out an expression on numbers, and on fetches of addresses."""

    def __init__(self, expression: bytes, place: Place, *, inner: bool = False) -> None:
        self._raw = expression
        self._at = 0
        self._place = place
        self._inner = inner
        self._stack: list[int | Fetch] = []
        self._found: list[Part] = []
        self._ready: Part | None = None

    def parts(self) -> list[Part]:
        """The value, or its pieces."""
        count = 0
        while self._at < len(self._raw):
            count += 1
            if count > LONGEST:
                raise Unreadable(TOO_COMPLEX)
            code = self._raw[self._at]
            self._at += 1
            self._step(code)
        if not self._found:
            return [self._take()]
        return self._found

    def address(self) -> Fetch:
        """What the expression leaves on the stack, as something to fetch."""
        (part, *_) = self.parts()
        if part.memory is None:
            if isinstance(part.word, str):
                raise Unreadable(part.word)
            return part.word
        return part.memory

    def _take(self, size: int = 0) -> Part:
        """What was described last."""
        if self._ready is not None:
            part, self._ready = self._ready._replace(size=size), None
            return part
        if not self._stack:
            return Part(None, OPTIMISED_OUT, size)
        return Part(self._fetch(self._stack.pop()), "", size)

    def _step(self, code: int) -> None:
        raw = self._raw
        if REG0 <= code < BREG0:
            self._ready = Part(None, find_register(self._place.machine, code - REG0))
        elif BREG0 <= code < REGX:
            offset, self._at = sleb(raw, self._at)
            self._stack.append(self._based(code - BREG0, offset))
        elif LIT0 <= code < REG0:
            self._stack.append(code - LIT0)
        elif code in FIXED:
            size, signed = FIXED[code]
            self._stack.append(self._fixed(size, signed=signed))
        elif code in ARITHMETIC:
            right, left = self._stack.pop(), self._stack.pop()
            self._stack.append(self._computed(code, left, right))
        elif code in STEPS:
            STEPS[code](self)
        else:
            raise Unreadable(TOO_COMPLEX)

    def _fixed(self, size: int, *, signed: bool = False) -> int:
        self._at += size
        return int.from_bytes(self._raw[self._at - size : self._at], "little", signed=signed)

    def _uleb(self) -> int:
        value, self._at = uleb(self._raw, self._at)
        return value

    def _sleb(self) -> int:
        value, self._at = sleb(self._raw, self._at)
        return value

    def _based(self, number: int, offset: int) -> Fetch:
        held = find_register(self._place.machine, number)
        if isinstance(held, str):
            raise Unreadable(held)
        return moved(held, offset)

    def _fetch(self, value: int | Fetch) -> Fetch:
        """An address; one that the file has is relative to the instruction."""
        if isinstance(value, Fetch):
            return value
        raise Unreadable(TOO_COMPLEX)

    def _static(self, address: int) -> Fetch:
        here = self._place.address
        return Fetch(register=program_counter(self._place.machine), offset=address - here)

    def _computed(self, code: int, left: int | Fetch, right: int | Fetch) -> int | Fetch:
        if isinstance(left, int) and isinstance(right, int):
            return ARITHMETIC[code](left, right)
        if code == PLUS and isinstance(left, int) and isinstance(right, Fetch):
            return moved(right, left)
        if code in (PLUS, MINUS) and isinstance(left, Fetch) and isinstance(right, int):
            return moved(left, right if code == PLUS else -right)
        raise Unreadable(TOO_COMPLEX)

    def _addr(self) -> None:
        self._stack.append(self._static(self._fixed(self._place.unit.address_size)))

    def _addrx(self) -> None:
        self._stack.append(self._static(self._place.unit.indexed_address(self._uleb())))

    def _constx(self) -> None:
        self._stack.append(self._place.unit.indexed_address(self._uleb()))

    def _deref(self) -> None:
        address = self._fetch(self._stack.pop())
        if len(address.derefs) >= DEREFS:
            raise Unreadable(TOO_COMPLEX)
        self._stack.append(dereferenced(address))

    def _plus_uconst(self) -> None:
        self._stack.append(self._computed(PLUS, self._stack.pop(), self._uleb()))

    def _bregx(self) -> None:
        number = self._uleb()
        self._stack.append(self._based(number, self._sleb()))

    def _regx(self) -> None:
        self._ready = Part(None, find_register(self._place.machine, self._uleb()))

    def _fbreg(self) -> None:
        offset = self._sleb()
        if self._inner or not self._place.frame_base:
            raise Unreadable(TOO_COMPLEX)
        base = _Evaluation(self._place.frame_base, self._place, inner=True).address()
        self._stack.append(moved(base, offset))

    def _cfa(self) -> None:
        self._stack.append(self._place.cfa())

    def _piece(self) -> None:
        self._found.append(self._take(self._uleb()))

    def _stack_value(self) -> None:
        value = self._stack.pop()
        self._ready = Part(None, _number(value) if isinstance(value, int) else value)

    def _implicit_value(self) -> None:
        size = self._uleb()
        value = self._fixed(size)
        if size > WORD:
            raise Unreadable(TOO_COMPLEX)
        self._ready = Part(None, _number(value))

    def _gone(self) -> None:
        raise Unreadable(OPTIMISED_OUT)

    def _thread_local(self) -> None:
        offset = self._stack.pop()
        if self._place.thread_local is None or not isinstance(offset, int):
            raise Unreadable(THREAD_LOCAL)
        self._stack.append(self._place.thread_local(offset))

    def _unary(self, code: int) -> None:
        value = self._stack.pop()
        if not isinstance(value, int):
            raise Unreadable(TOO_COMPLEX)
        self._stack.append(-value if code == NEG else ~value)


STEPS: dict[int, Callable[[_Evaluation], None]] = {
    ADDR: _Evaluation._addr,
    ADDRX: _Evaluation._addrx,
    GNU_ADDR_INDEX: _Evaluation._addrx,
    CONSTX: _Evaluation._constx,
    GNU_CONST_INDEX: _Evaluation._constx,
    DEREF: _Evaluation._deref,
    CONSTU: lambda e: e._stack.append(e._uleb()),
    CONSTS: lambda e: e._stack.append(e._sleb()),
    DUP: lambda e: e._stack.append(e._stack[-1]),
    DROP: lambda e: e._stack.__delitem__(-1),
    NEG: lambda e: e._unary(NEG),
    NOT: lambda e: e._unary(NOT),
    PLUS_UCONST: _Evaluation._plus_uconst,
    REGX: _Evaluation._regx,
    BREGX: _Evaluation._bregx,
    FBREG: _Evaluation._fbreg,
    CALL_FRAME_CFA: _Evaluation._cfa,
    PIECE: _Evaluation._piece,
    NOP: lambda e: None,
    STACK_VALUE: _Evaluation._stack_value,
    IMPLICIT_VALUE: _Evaluation._implicit_value,
    IMPLICIT_POINTER: _Evaluation._gone,
    GNU_IMPLICIT_POINTER: _Evaluation._gone,
    ENTRY: _Evaluation._gone,
    GNU_ENTRY: _Evaluation._gone,
    TLS: _Evaluation._thread_local,
    GNU_TLS: _Evaluation._thread_local,
}
"""The operations with operands of their own kinds."""
