"""Locations of values, how functions pass them, and how the kernel fetches and compares
them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from lbtrace.values.base import Type


class Fetch(Struct, frozen=True):
    """How the kernel program gets one value at a probe.

    The value starts as the content of ``register`` (``base="register"``),
    the address of a slot relative to the stack pointer at function entry
    (``base="stack"``), the value of the earlier fetch ``earlier``
    (``base="slot"``), at a return what ``register`` held when the call was
    entered (``base="kept"``), or zero (``base="constant"``). ``offset`` is added, and
    ``factor`` times the value of the earlier fetch ``plus``, if that is not -1.
    Then, for each member of ``derefs``, the eight bytes at that address are
    loaded and the member is added. Last, ``read`` says what the result is:
    the ``value`` itself, an ``integer`` of ``size`` bytes in memory there, a
    NUL-terminated ``string`` there, or ``bytes`` there, ``length_from`` being
    the slot that holds their number, or that of units of ``scale`` bytes.
    Memory is that of the ``space``, the traced process (``user``).
    Strings and bytes are cut at ``limit``. If they are ``optional``, it is no
    loss that they cannot be read. Of a value or an integer only ``bit_size``
    bits from ``bit_offset`` on count, if given; they are extended by their
    sign where ``signed``.
    """

    base: Literal["register", "stack", "slot", "kept", "constant"] = "register"
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


class Condition(Struct, frozen=True):
    """A comparison the kernel makes before it sends an event.

    ``subject`` is compared with ``operand``: the fetched ``value`` in
    ``slot``, a number the kernel knows of every event, or, of a return, the
    ``duration`` of the call in ns; if ``other`` is not -1, with the value in that
    slot instead of ``operand``. A string in ``slot``, or ``comm``, is
    compared with ``text``, for which there are ``startswith`` and its
    contrary ``lacks``. What cannot be read fulfils no comparison. Conditions
    of the same ``group`` are alternatives; every group needs one that holds.
    """

    slot: int
    operator: Literal["==", "!=", "<", "<=", ">", ">=", "startswith", "lacks"]
    operand: int
    signed: bool = True
    group: int = 0
    subject: Literal["value", "pid", "tid", "duration", "text", "comm"] = "value"
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

    ``size`` is in bytes. ``scalars`` are the numbers it is made of, in order; None says that how
    it is passed is unknown or, in Go, that it holds an array of several elements.

    How it is passed: with ``reference``, by a pointer; with ``passed_separately``, by its scalars,
    like parameters of their own. ``packed`` says that it need not lie where its largest number
    would have to. ``exhausts_registers`` says that where registers do not hold it they are all
    taken nevertheless, ``registers_miscounted`` that clang may forget the registers that it takes,
    and ``result_pointer_lost`` that the pointer to a result in memory need not come back in a
    register.

    What debug information says of function entry, by DWARF's numbers of registers: ``register``
    holds it, or the pointer to it (-1: none is recorded), ``derived_from`` is the one from whose
    value it can be computed, if none holds it, ``part_registers`` hold parts of it, and
    ``address`` holds the address of a value that is no ``reference`` (-1: none does). ``pieces``
    are the locations of its parts, where they are listed: no other part is passed. ``absent`` are
    the bytes, from one offset to another, for which debug information has a location nowhere in
    the function, unlike for others. With ``may_shift`` the compiler knows all callers, and what
    comes after a part that it does not pass may have moved up.
    ``frame_location`` is the location of the variable throughout the function, in unoptimised
    code: an offset from a register, or from the `CFA`.

    Its first location begins so many bytes ``begins_after`` the entry (0: it has one there, or
    none), and names these ``first_registers``, or is a ``first_constant``, or it is
    ``first_stored`` in the frame.

    ``missing_reason`` is why the compiler passes nothing for it, or ``""``. With ``may_be_unset``
    it has its location, but callers need not put anything there. ``late_reason`` is not None where
    the function may fill the registers itself, after its entry: then it is why the value is missing
    if they do, ``""`` if the convention gives its location.

    It points to what the function has ``filled`` when it returns: before, only the address counts.
    """

    name: str
    type: Type
    size: int = 8
    scalars: tuple[Scalar, ...] | None = ()
    reference: bool = False
    register: int = -1
    part_registers: tuple[int, ...] = ()
    missing_reason: str = ""
    alignment: int = 8
    passed_separately: bool = False
    frame_location: tuple[int, int] | None = None
    may_be_unset: bool = False
    exhausts_registers: bool = False
    result_pointer_lost: bool = False
    registers_miscounted: bool = False
    packed: bool = False
    late_reason: str | None = None
    pieces: tuple[Piece, ...] = ()
    address: int = -1
    absent: tuple[tuple[int, int], ...] = ()
    may_shift: bool = False
    derived_from: int = -1
    begins_after: int = 0
    first_registers: tuple[int, ...] = ()
    first_constant: bool = False
    first_stored: bool = False
    filled: bool = False

    @property
    def shown_type(self) -> Type:
        """The type as which it is shown."""
        return self.type.bare() if self.filled else self.type


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
    """A function's parameters and result (None: nothing), from debug information.

    ``results`` are those of a Go function, which may have several. ``located``
    says of each parameter where debug information puts it at function entry:
    the DWARF numbers of its registers, its offset from the canonical frame
    address (CFA), or None. These are known to be true where they are ``exact``.
    ``hints`` say by which convention it is called. ``filled_within`` is not None
    where any instruction may fill the registers of the parameters with a
    ``late_reason``, not only the first ones: it is the addresses of the code, or
    empty where it is certain that debug information does not mean the entry. It is ``complete``
    where the function certainly takes no more than these parameters. Debug information
    ``leaves_out`` some, or may do so, not only at the end, as it ``omits_lost`` ones: nothing is
    said of those that have no location. ``otherwise`` is what is true instead if
    the function has another convention, where debug information leaves out which one it has.
    ``stores_all`` says that it was compiled without optimisation, and nothing shows that it was
    optimised when it was linked, so that it stores each parameter in its frame before it does
    anything else.
    """

    parameters: tuple[Formal, ...]
    result: Formal | None = None
    results: tuple[Formal, ...] = ()
    located: tuple[tuple[int, ...] | int | None, ...] = ()
    exact: bool = False
    hints: ConventionHints = ConventionHints()
    filled_within: tuple[tuple[int, int], ...] | None = None
    complete: bool = False
    leaves_out: bool = False
    omits_lost: bool = False
    otherwise: Prototype | None = None
    stores_all: bool = False
