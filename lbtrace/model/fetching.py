"""Where values lie, and how functions pass them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from lbtrace.model.types import Type


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


class Value(Struct, frozen=True):
    """A parameter or a result: its name, its type, and its slot in an event.

    ``slot`` is the number of a fetch of the probe; -1 says that the value
    cannot be read, and ``reason`` why (``float in xmm0``). The value begins
    ``offset`` bytes into what was fetched; of a bit field, ``bit_size`` bits
    from ``bit_offset`` on. The ``members`` of a record, the elements of an
    array and what a pointer leads to are values of their own.
    """

    name: str
    type: Type
    slot: int = -1
    reason: str = ""
    offset: int = 0
    bit_offset: int = 0
    bit_size: int = 0
    members: tuple[Value, ...] = ()


class Scalar(Struct, frozen=True):
    """A number inside a value: ``size`` bytes at ``offset``.

    ``kind`` is how it computes: in integer registers, in vector registers,
    or on the x87 stack (``long double``).
    """

    offset: int
    size: int
    kind: Literal["integer", "float", "x87"]


CFA = -1
"""Stands for the canonical frame address where a DWARF register is named."""


class Formal(Struct, frozen=True):
    """A parameter or result as debug information declares it.

    ``size`` is in bytes. ``scalars`` are the numbers it is made of, in order;
    None says that how it is passed cannot be told. ``reference`` says that a
    pointer to it is passed instead. ``register`` is the DWARF number of the
    register that holds it at function entry, -1 where that is not recorded.
    ``home`` is where the variable lies throughout the function, as unoptimised code
    has it: an offset from the register of this DWARF number, or from the `CFA`.
    ``lost`` is why the compiler passes nothing for it, or ``""``; with ``unread`` it
    has its place, but callers need not put anything there. In Go,
    ``scalars`` None says that it holds an array of several elements. ``split``
    says that its scalars travel apart, like parameters of their own. ``shadowed`` says that
    where registers do not hold it they are all taken nevertheless, and ``forgotten`` that the
    pointer by which a result in memory is asked for need not come back in a register.
    """

    name: str
    type: Type
    size: int = 8
    scalars: tuple[Scalar, ...] | None = ()
    reference: bool = False
    register: int = -1
    lost: str = ""
    alignment: int = 8
    split: bool = False
    home: tuple[int, int] | None = None
    unread: bool = False
    shadowed: bool = False
    forgotten: bool = False


class Prototype(Struct, frozen=True):
    """A function's parameters and result (None: nothing), from debug information.

    ``results`` are those of a Go function, which may have several. ``located``
    says of each parameter where debug information puts it at function entry:
    the DWARF numbers of its registers, its offset from the canonical frame
    address (CFA), or None. These are known to be true where they are ``exact``.
    """

    parameters: tuple[Formal, ...]
    result: Formal | None = None
    results: tuple[Formal, ...] = ()
    located: tuple[tuple[int, ...] | int | None, ...] = ()
    exact: bool = False
