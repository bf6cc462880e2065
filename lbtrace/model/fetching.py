"""Locations of values, how functions pass them, and how the kernel fetches and compares
them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Type

Operation: TypeAlias = Literal[
    "",
    "and",
    "or",
    "xor",
    "multiply",
    "shift left",
    "shift right",
    "shift right signed",
    "divide",
    "divide signed",
    "remainder",
    "remainder signed",
]
"""What the kernel program makes of two numbers; their sum, if it is empty."""


class Fetch(Struct, frozen=True):
    """How the kernel program gets one value at a probe.

    The value starts as the content of ``register`` (``base="register"``),
    the address of a slot relative to the stack pointer at function entry
    (``base="stack"``), the value of the earlier fetch ``earlier``
    (``base="slot"``), at a return what ``register`` held when the call was
    entered (``base="kept"``), where the probed file is mapped (``base="file"``, which
    a plan no longer has: see `CallValues.at`), the address of a tracepoint's record
    (``base="record"``), the thread pointer (``base="thread"``), or zero (``base="constant"``).
    ``offset`` is added, and ``factor`` times the value of the earlier fetch ``plus``, if that is
    not -1. With an ``operation``, what was there and the latter, or ``operand`` where there is
    none, are combined as it says, and the offset is added to the result; what is shifted has
    ``size`` bytes, and with none it counts as no failure that there is no result. Then, for each
    member of ``derefs``, the eight bytes at that address are loaded and the member is added. Last,
    ``read`` says what the result is:
    the ``value`` itself, an ``integer`` of ``size`` bytes in memory there, a
    NUL-terminated ``string`` there, or ``bytes`` there, ``length_from`` being
    the slot that holds their number, or that of units of ``scale`` bytes. Of a string of
    ``scale`` 0 it is not asked how long it is beyond its ``limit``.
    Memory is that of the ``space``: the traced process (``user``) or the ``kernel``.
    Strings and bytes are cut at ``limit``. If they are ``optional``, it is no
    loss that they cannot be read; such strings are not looked for at small numbers.
    Of a value or an integer only ``bit_size`` bits from ``bit_offset`` on count,
    if given; they are extended by their sign where ``signed``.
    """

    base: Literal["register", "stack", "slot", "kept", "file", "record", "thread", "constant"] = (
        "register"
    )
    register: str = ""
    offset: int = 0
    derefs: tuple[int, ...] = ()
    read: Literal["value", "integer", "string", "bytes"] = "value"
    size: int = 8
    signed: bool = False
    limit: int = 0
    length_from: int = -1
    bit_offset: int = 0
    bit_size: int = 0
    scale: int = 1
    optional: bool = False
    earlier: int = -1
    plus: int = -1
    factor: int = 1
    space: str = "user"
    operation: Operation = ""
    operand: int = 0


class Condition(Struct, frozen=True):
    """A comparison the kernel makes before it sends an event.

    ``subject`` is compared with ``operand``: the fetched ``value`` in
    ``slot``, a number the kernel knows of every event, or, of a return, the
    ``duration`` of the call in ns or how long it was ``blocked`` or ``runnable``, of an entry
    whether it is ``from_program``: of the main program or called by it; if ``other`` is not -1,
    with the value in that slot instead of ``operand``. A string in ``slot``, or ``comm``, is
    compared with ``text``, for which there are ``startswith`` and its
    contrary ``lacks``. What cannot be read fulfils no comparison. Conditions
    of the same ``group`` are alternatives; every group needs one that holds.
    """

    slot: int
    operator: Literal["==", "!=", "<", "<=", ">", ">=", "startswith", "lacks"]
    operand: int
    signed: bool = True
    group: int = 0
    subject: Literal[
        "value",
        "pid",
        "tid",
        "duration",
        "blocked",
        "runnable",
        "goroutine",
        "from_program",
        "text",
        "comm",
    ] = "value"
    text: bytes = b""
    other: int = -1


class Scalar(Struct, frozen=True):
    """A number inside a value: ``size`` bytes at ``offset``.

    ``kind`` is how it computes: in integer registers, in vector registers,
    or on the x87 stack (``long double``); or that the compiler keeps a value with it in ``memory``.
    """

    offset: int
    size: int
    kind: Literal["integer", "float", "x87", "memory"]


CFA = -1
"""Stands for the canonical frame address where a DWARF register is named."""


class Piece(Struct, frozen=True):
    """The bytes of a value from ``start`` to before ``end`` (0: all of it) that are in the
    register of this DWARF number, ``skipped`` bytes into that."""

    register: int
    start: int
    end: int
    skipped: int = 0


class Formal(Struct, frozen=True):
    """A parameter or result as debug information declares it.

    Registers are DWARF's numbers, and -1 where debug information names none.
    """

    name: str
    """Its name."""
    type: Type
    """Its type."""
    size: int = 8
    """In bytes."""
    scalars: tuple[Scalar, ...] | None = ()
    """The numbers it is made of, in order. None: how it is passed is unknown or, in Go, it holds an
    array of several elements."""
    reference: bool = False
    """A pointer to it is passed."""
    register: int = -1
    """Register that holds it, or the pointer to it, at function entry."""
    part_registers: tuple[int, ...] = ()
    """Registers that hold parts of it at function entry."""
    missing_reason: str = ""
    """Why the compiler passes nothing for it."""
    alignment: int = 8
    """In bytes."""
    passed_separately: bool = False
    """Its scalars are passed like parameters of their own."""
    frame_location: tuple[int, int] | None = None
    """Where the variable is throughout the function, in unoptimised code: a register, or the `CFA`,
    and an offset."""
    may_be_unset: bool = False
    """It has its location, but callers need not put anything there."""
    result_pointer_lost: bool = False
    """The pointer to a result in memory need not come back in a register."""
    registers_miscounted: bool = False
    """LLVM may count other registers for it than it takes."""
    packed: bool = False
    """It need not be aligned like its largest number."""
    late_reason: str | None = None
    """Not None if the function may fill the registers itself, after its entry: then the reason why
    the value is missing if it does, ``""`` if the convention gives its location."""
    pieces: tuple[Piece, ...] = ()
    """Locations of its parts, where they are listed: no other part is passed."""
    address: int = -1
    """Register that holds the address of a value that is no ``reference``, at function entry."""
    may_shift: bool = False
    """The compiler knows all callers: what follows a part that it does not pass may have moved
    up."""
    derived_from: int = -1
    """If no register holds it: the one from whose value it can be computed."""
    begins_after: int = 0
    """Bytes after the entry where its first location begins; 0: at the entry, or there is none."""
    first_registers: tuple[int, ...] = ()
    """The registers of its first location."""
    first_constant: bool = False
    """Its first location is a constant."""
    first_stored: bool = False
    """Its first location is in the frame."""
    filled: bool = False
    """It points to what the function fills: at its entry only the address counts."""

    @property
    def shown_type(self) -> Type:
        """The type as which it is shown."""
        return self.type.bare() if self.filled else self.type

    def without_location(self, **changes: Any) -> Formal:
        """Return it without the location that debug information gives, and with ``changes``."""
        return replace(
            self, register=-1, part_registers=(), pieces=(), frame_location=None, **changes
        )


OTHER_LANGUAGE = "other"


class ConventionHints(Struct, frozen=True):
    """What says by which convention a function is called.

    ``code`` is its ``DW_AT_calling_convention`` (0: it has none), ``language`` and ``compiler``
    are those of its unit, as far as they matter: "c", "c++", "rust", or `OTHER_LANGUAGE` where no
    convention is known; "gcc" or "llvm". A language
    with conventions of its own names the one of the function as ``runtime``.
    """

    code: int = 0
    language: str = ""
    compiler: str = ""
    runtime: str = ""


class Prototype(Struct, frozen=True):
    """A function's parameters and result (None: nothing), from debug information, or from its
    mangled name.

    ``results`` are those of a Go function, which may have several. ``located``
    says of each parameter where debug information puts it at function entry:
    the DWARF numbers of its registers, its offset from the canonical frame
    address (CFA), or None. These are known to be true where they are ``exact``.
    ``hints`` say by which convention it is called. It is ``filled_late`` where any instruction may
    fill the registers of the parameters with a ``late_reason``, not only the first ones. It is
    ``complete`` where the function certainly takes no more than these parameters. Debug information
    ``leaves_out`` some, not only at the end. ``otherwise`` is what is true instead if the function
    has another convention, where debug information leaves out which one it has.
    ``stores_all`` says that it was compiled without optimisation, so that it stores each parameter
    in its frame before it does anything else.
    """

    parameters: tuple[Formal, ...]
    result: Formal | None = None
    results: tuple[Formal, ...] = ()
    located: tuple[tuple[int, ...] | int | None, ...] = ()
    exact: bool = False
    hints: ConventionHints = ConventionHints()
    filled_late: bool = False
    complete: bool = False
    leaves_out: bool = False
    otherwise: Prototype | None = None
    stores_all: bool = False
