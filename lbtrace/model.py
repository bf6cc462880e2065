"""The nouns of lbtrace: plain data that flows from the plan to the sinks.

Nothing here holds a handle or touches the kernel. Everything that belongs to
a `Plan` can be written to a capture and read back by a later version, so
fields are only ever added, with defaults.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

# --------------------------------------------------------------- value types


class Integer(Struct, frozen=True, tag="integer"):
    """An integer of ``size`` bytes."""

    name: str
    size: int
    signed: bool


class Character(Struct, frozen=True, tag="character"):
    """A character of ``size`` bytes, shown as the source writes it: ``'a'``."""

    name: str
    size: int
    signed: bool


class Boolean(Struct, frozen=True, tag="boolean"):
    """A truth value of ``size`` bytes."""

    name: str
    size: int


class Pointer(Struct, frozen=True, tag="pointer"):
    """An address, shown in hexadecimal. ``name`` is the whole type: ``char *``.

    ``target`` is the type of what lies there, as far as it was looked into.
    """

    name: str
    size: int = 8
    target: Type | None = None


class Float(Struct, frozen=True, tag="float"):
    """A floating-point number of ``size`` bytes: IEEE 754 binary16, 32 or 64."""

    name: str
    size: int


class Enumeration(Struct, frozen=True, tag="enumeration"):
    """An integer whose ``values`` have names."""

    name: str
    size: int
    signed: bool
    values: tuple[tuple[int, str], ...] = ()


class Member(Struct, frozen=True):
    """A member of a record: ``offset`` in bytes from its start.

    A bit field has a ``bit_size``; it begins ``bit_offset`` bits above the
    lowest bit of the byte at ``offset``.
    """

    name: str
    type: Type
    offset: int
    bit_offset: int = 0
    bit_size: int = 0


class Record(Struct, frozen=True, tag="record"):
    """A struct, union or class. ``members`` may be empty where nobody looked."""

    name: str
    size: int
    members: tuple[Member, ...] = ()


class Array(Struct, frozen=True, tag="array"):
    """``count`` elements, one behind the other."""

    name: str
    size: int
    element: Type
    count: int


class String(Struct, frozen=True, tag="string"):
    """Text, however it is kept. Where ``pointer`` and ``length`` are not
    negative it is a record with those two words, at these offsets."""

    name: str
    size: int = 8
    pointer: int = -1
    length: int = -1


class Slice(Struct, frozen=True, tag="slice"):
    """A slice of Go: where its elements are, their number, and how many have room."""

    name: str
    element: Type
    size: int = 24


class Interface(Struct, frozen=True, tag="interface"):
    """An interface value of Go: what tells its dynamic type, and the value.

    ``static`` says that there is no method table in between (``any``).
    """

    name: str
    static: bool
    size: int = 16


class Void(Struct, frozen=True, tag="void"):
    """The result of a function that returns nothing."""


class Opaque(Struct, frozen=True, tag="opaque"):
    """A type lbtrace knows by name but cannot show yet; its value is ``?``."""

    name: str


Type: TypeAlias = (
    Integer
    | Character
    | Boolean
    | Pointer
    | Float
    | Enumeration
    | Record
    | Array
    | String
    | Slice
    | Interface
    | Void
    | Opaque
)
"""The type of a value, as a tagged union: a new kind of type is a new struct."""

LONG = Integer("long", 8, True)
"""What is assumed where no debug information tells the type."""


# ------------------------------------------------------------ where values lie


class Fetch(Struct, frozen=True):
    """How the kernel program gets one value at a probe.

    The value starts as the content of ``register`` (``base="register"``),
    the address of a slot relative to the stack pointer at function entry
    (``base="stack"``) or zero (``base="constant"``). ``offset`` is added.
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

    base: Literal["register", "stack", "constant"] = "register"
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


class Condition(Struct, frozen=True):
    """A comparison the kernel makes before it sends an event.

    ``subject`` is compared with ``operand``: the fetched ``value`` in
    ``slot``, a number the kernel knows of every event, or, of a return, the
    ``duration`` of the call in ns. A string in ``slot``, or ``comm``, is
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


# -------------------------------------------------------- between elf and arch


class Scalar(Struct, frozen=True):
    """A number inside a value: ``size`` bytes at ``offset``.

    ``kind`` is how it computes: in integer registers, in vector registers,
    or on the x87 stack (``long double``).
    """

    offset: int
    size: int
    kind: Literal["integer", "float", "x87"]


class Formal(Struct, frozen=True):
    """A parameter or result as debug information declares it.

    ``size`` is in bytes. ``scalars`` are the numbers it is made of, in order;
    None says that how it is passed cannot be told. ``reference`` says that a
    pointer to it is passed instead. ``register`` is the DWARF number of the
    register that holds it at function entry, -1 where that is not recorded.
    ``lost`` is why the compiler passes nothing for it, or ``""``. In Go,
    ``scalars`` None says that it holds an array of several elements. ``split``
    says that its words travel apart, like parameters of their own.
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


class Prototype(Struct, frozen=True):
    """A function's parameters and result (None: nothing), from debug information.

    ``results`` are those of a Go function, which may have several. ``located``
    says of each parameter where debug information puts it at function entry:
    the DWARF numbers of its registers, its offset from the canonical frame
    address (CFA), or None.
    """

    parameters: tuple[Formal, ...]
    result: Formal | None = None
    results: tuple[Formal, ...] = ()
    located: tuple[tuple[int, ...] | int | None, ...] = ()


# ------------------------------------------------------------------- the plan


class Function(Struct, frozen=True):
    """A function of a binary.

    ``address`` is its virtual address in the file, ``size`` its length in
    bytes (0 where the symbol table does not say), ``offset`` the position of
    its first byte in the file. ``aliases`` are the other names of the same
    address. ``parameters`` and ``result`` are what is traced of it, ``typed``
    says whether they come from debug information. ``returns`` says how its
    returns are seen (``uretprobe``, ``sites`` or ``none``) and, behind a
    colon, why. With ``exits_hidden`` it can be left in ways no probe watches.
    """

    name: str
    address: int
    size: int
    offset: int
    aliases: tuple[str, ...] = ()
    parameters: tuple[Value, ...] = ()
    result: Value | None = None
    typed: bool = False
    returns: str = ""
    exits_hidden: bool = False


class Site(Struct, frozen=True):
    """A place in a function's code at which a probe stands.

    ``offset`` is its position in the file, ``address`` its virtual address.
    ``sp_delta`` is how far, in bytes, the stack pointer lies below its value
    at function entry when the probe fires. ``displaced`` is the instruction
    under the breakpoint, ``emulated`` whether the kernel emulates it (cheap)
    or single-steps it (dear), ``reason`` why this place was chosen. A hit does
    not count if one of the processor's flags ``unless`` is set (EFLAGS bits).
    """

    address: int
    offset: int
    sp_delta: int = 0
    displaced: str = ""
    emulated: bool = False
    reason: str = ""
    unless: int = 0


ProbeKind: TypeAlias = Literal[
    "call", "entry", "return", "tail", "stack", "signal stack", "goroutine end"
]
"""``call`` sends an event at entry and one at return, the others just one:
``return`` and ``tail`` stand where a function is left, by a return or by a
jump to another function that returns in its place; ``stack`` and ``signal
stack`` where the program sets up a stack, whose address and size the event's
first values are; ``goroutine end`` where a goroutine ends, with all its calls.
The last three belong to none of the functions."""


class Probe(Struct, frozen=True):
    """A site to attach to, and what to send from there.

    Under ``result_conditions`` the entry is sent only when the call has
    returned and they hold. A ``foreign`` probe is in code of another language in
    a program of Go, whose calls belong to threads. Its position in `Plan.probes`
    is the number its events carry.
    """

    function: int
    kind: ProbeKind
    site: Site
    fetches: tuple[Fetch, ...] = ()
    result_fetches: tuple[Fetch, ...] = ()
    conditions: tuple[Condition, ...] = ()
    result_conditions: tuple[Condition, ...] = ()
    foreign: bool = False


class Binary(Struct, frozen=True):
    """The ELF file that is traced. ``build_id`` is hexadecimal, or empty."""

    path: str
    build_id: str = ""
    machine: Literal["x86_64", "aarch64"] = "x86_64"


class GoLayout(Struct, frozen=True):
    """Where a Go program keeps what identifies a goroutine.

    ``g`` says where the pointer to the running goroutine's ``runtime.g`` is:
    in its ``register`` (r14 from Go 1.17 on, x28 on arm64) or in the word
    below the ``thread`` pointer (amd64, every version). ``goid`` and
    ``stack_high`` are the offsets of ``g.goid`` and ``g.stack.hi``. ``types``
    are the names of the program's types by their hash, in two tuples alike.
    """

    g: Literal["register", "thread"]
    goid: int
    stack_high: int = 8
    types: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())


class Plan(Struct, frozen=True):
    """All that can be decided without the kernel.

    ``notes`` are remarks to the user: what was left out, and why. With ``go``
    events carry the goroutine, and their frames are distances from the top of
    its stack, negative and modulo 2**64.
    """

    binary: Binary
    functions: tuple[Function, ...]
    probes: tuple[Probe, ...]
    notes: tuple[str, ...] = ()
    version: int = 1
    go: GoLayout | None = None


# ------------------------------------------------------------------ the target


class Target(Struct, frozen=True):
    """Which processes are traced: one (``pid``), one that is started
    (``command``) with the children it forks, or all that run the binary.
    With ``follow`` those that ``pid`` forks are traced too."""

    pid: int = 0
    command: tuple[str, ...] = ()
    follow: bool = False


# ------------------------------------------------------------------- the events

ENTRY, RETURN, LOSS = 1, 2, 3
"""Values of `Event.kind`."""


class Event(Struct, gc=False):
    """One hit of a probe, as the kernel program sends it (``bpf_src/lbtrace.h``).

    ``time`` is CLOCK_MONOTONIC in ns. ``frame`` is the stack pointer at the
    function's entry and so names the call. ``goroutine`` is 0 outside Go.
    ``kind`` is `ENTRY`, `RETURN` or `LOSS`; bit *n* of ``faults`` says that value *n*
    could not be read. ``lost`` counts the events this thread lost just before
    this one, entries in the high half, returns in the low one; an event of
    kind `LOSS` does nothing else, at the end of a trace. ``blob`` is the
    length of the bytes that accompany the event: the values behind the sixth,
    eight bytes each, then the strings and bytes, in the order of their
    fetches. The values are raw registers or memory,
    zero-extended to 64 bits; of a string the number of its bytes in the blob
    in the low half, its true length (2**32 - 1: unknown) in the high half.
    """

    time: int
    frame: int
    goroutine: int
    probe: int
    pid: int
    tid: int
    kind: int
    faults: int
    lost: int
    blob: int
    value0: int
    value1: int
    value2: int
    value3: int
    value4: int
    value5: int


class Thread(Struct, frozen=True):
    """The name (comm) of a thread, from ``time`` on.

    ``life`` is another number where the kernel gave the same ``tid`` to a new
    thread, and where the process executed another program; 0 if not known.
    ``inside`` is its number in a pid namespace of its own, 0 if it has none.
    """

    pid: int
    tid: int
    name: str
    time: int = 0
    life: int = 0
    inside: int = 0


class Batch(Struct):
    """Events in the order the ring buffer held them, undecoded.

    ``events`` holds fixed-size records, ``blobs`` the bytes that accompany
    them, one behind the other, ``threads`` the names first seen or changed,
    ``entries`` says how many of the events begin a call.
    """

    events: bytes | memoryview
    blobs: bytes | memoryview = b""
    threads: tuple[Thread, ...] = ()
    entries: int = 0


class Losses(Struct):
    """What was not seen, by cause.

    The first three are events that never arrived. ``return_depth`` are
    returns the kernel does not deliver because 64 traced calls were already
    open in the thread. ``string_fault`` and ``blob_too_long`` are values, not
    events: their calls are shown, without them.
    """

    ring_full_entry: int = 0
    ring_full_return: int = 0
    nested_miss: int = 0
    return_depth: int = 0
    string_fault: int = 0
    blob_too_long: int = 0

    @property
    def events(self) -> int:
        """Events that never arrived."""
        return self.ring_full_entry + self.ring_full_return + self.nested_miss + self.return_depth

    @property
    def total(self) -> int:
        """All that is missing, events and values."""
        return self.events + self.string_fault + self.blob_too_long


# -------------------------------------------------------------------- the calls

End: TypeAlias = Literal["returned", "unwound", "tail", "open"]
"""How a call ended: it returned; its frame was left by an exception, longjmp
or the like; it jumped into another traced function; no end was seen."""


class Address(int):
    """The value of a pointer."""

    __slots__ = ()


class Char(str):
    """The value of a character."""

    __slots__ = ()


class Constant(str):
    """The value of an enumeration, by name."""

    __slots__ = ()


class Text(Struct, frozen=True):
    """The value of a string: its bytes, as far as they were read, and its true
    length in bytes; None where it goes on and nobody knows how far."""

    data: bytes
    length: int | None

    @property
    def cut(self) -> bool:
        """Whether there is more of it."""
        return self.length != len(self.data)


class Fields(Struct, frozen=True):
    """The value of a record."""

    type: str
    fields: tuple[Argument, ...]


class Elements(Struct, frozen=True):
    """The value of an array: its first elements, and how many follow."""

    elements: tuple[Datum, ...]
    more: int = 0


class Referent(Struct, frozen=True):
    """The value of a pointer that was followed: where it leads, and what is there."""

    address: Address
    value: Datum


class Unreadable(Struct, frozen=True):
    """Stands for a value that could not be read. ``reason`` may be empty."""

    reason: str = ""


Datum: TypeAlias = (
    bool | int | float | str | Text | Fields | Elements | Referent | Unreadable | None
)
"""A decoded value: ``int``, ``float``, ``bool``, `Address`, `Char`, `Constant`,
`Text`, `Fields`, `Elements`, `Referent`, `Unreadable`; None is the result of a
function without one."""


class Argument(Struct, frozen=True):
    """An argument of a call, or a member of a record, by name."""

    name: str
    value: Datum


class Call(Struct):
    """One call of a traced function.

    ``depth`` is 0 at the outermost traced call of its thread. ``start`` is
    CLOCK_MONOTONIC in ns, ``duration`` in ns; it is None unless ``end`` is
    ``returned``. ``result`` is None until then. ``lost`` counts the events
    its thread lost just before the call began.
    """

    name: str
    pid: int
    tid: int
    depth: int
    start: int
    frame: int
    probe: int
    args: tuple[Argument, ...] = ()
    result: Datum = None
    duration: int | None = None
    end: End = "open"
    lost: int = 0
    goroutine: int = 0


class Loss(Struct, frozen=True):
    """``count`` events of a thread are missing at this place in its calls,
    ``entries`` of them beginnings of calls, the others returns."""

    pid: int
    tid: int
    depth: int
    time: int
    count: int
    entries: int = 0


class Summary(Struct):
    """What a finished trace amounts to. ``interrupted`` says that the capture
    it was made from breaks off."""

    calls: int = 0
    losses: Losses = field(default_factory=Losses)
    processes: int = 0
    threads: int = 0
    interrupted: bool = False
