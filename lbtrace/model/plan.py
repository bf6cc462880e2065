"""What a plan holds, and whom it is for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.model.fetching import Condition, Fetch, Value
from lbtrace.model.jumps import Jump, RegisterTest


class Function(Struct, frozen=True):
    """A function of the binary at position ``binary`` of `Plan.binaries`.

    Functions that several binaries of a plan have are called ``name@binary``.
    ``address`` is its virtual address in the file, ``size`` its length in
    bytes (0 where the symbol table does not say), ``offset`` the position of
    its first byte in the file. ``aliases`` are the other names of the same
    address. ``parameters`` and ``result`` are what is traced of it, ``typed``
    says whether they come from debug information. ``returns`` says how its
    returns are seen (``uretprobe``, ``sites`` or ``none``) and, behind a
    colon, why. With ``exits_hidden`` it can be left in ways no probe watches, with
    ``may_jump`` by a jump to another function, of which a uretprobe tells nothing.
    ``language`` says whose names, values and habits of writing them they are. A ``local``
    one has no symbol by which other files could refer to it.
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
    language: Literal["", "go"] = ""
    may_jump: bool = False
    binary: int = 0
    local: bool = False


class Site(Struct, frozen=True):
    """A place in a function's code at which a probe stands.

    ``offset`` is its position in the file, ``address`` its virtual address.
    ``sp_delta`` is how far, in bytes, the stack pointer lies below its value
    at function entry when the probe fires. ``displaced`` is the instruction
    under the breakpoint, ``emulated`` whether the kernel emulates it (cheap)
    or single-steps it (dear), ``reason`` why this place was chosen. A hit does
    not count if one of the processor's flags ``unless`` is set, nor, if there are
    any in ``only``, if none of them is (bits of EFLAGS or PSTATE, and those
    of `lbtrace.model.jumps`), nor if it stands on a jump that does not pass its ``test`` of
    a register, or on a ``jump`` that stays in the function.
    """

    address: int
    offset: int
    sp_delta: int = 0
    displaced: str = ""
    emulated: bool = False
    reason: str = ""
    unless: int = 0
    only: int = 0
    jump: Jump | None = None
    test: RegisterTest | None = None


ProbeKind: TypeAlias = Literal[
    "call",
    "entry",
    "return",
    "tail",
    "stack",
    "signal stack",
    "switch",
    "goroutine end",
    "landing",
]
"""``call`` sends an event at entry and one at return, the others just one:
``return`` and ``tail`` stand where a function is left, by a return or by a
jump to another function that returns in its place; ``stack`` and ``signal
stack`` where the program sets up a stack, whose address and size the event's
first values are; ``switch`` where its own code takes up another stack, whose
pointer the first value is; ``goroutine end`` where a goroutine ends, with all its calls;
``landing`` where code goes on after calls were left by an exception or longjmp, so that
those of the frame it tells, and of lower ones, are over. The last five belong to a binary,
but to none of the functions."""

OF_FUNCTIONS: frozenset[ProbeKind] = frozenset({"call", "entry", "return", "tail"})
"""Kinds of probe that belong to a function, and tell of its calls."""


class Probe(Struct, frozen=True):
    """A site in the binary at position ``binary`` of `Plan.binaries`, and what to
    send from there.

    Under ``result_conditions`` the entry is sent only when the call has
    returned and they hold. Entries and exits of a function that ``keeps`` a
    register agree on what it held at entry. A ``foreign`` probe is in code of another language in
    a program of Go, or where goroutines cannot be told: its calls belong to threads.
    Its position in `Plan.probes` is the number its events carry.
    """

    function: int
    kind: ProbeKind
    site: Site
    fetches: tuple[Fetch, ...] = ()
    result_fetches: tuple[Fetch, ...] = ()
    conditions: tuple[Condition, ...] = ()
    result_conditions: tuple[Condition, ...] = ()
    foreign: bool = False
    binary: int = 0
    keeps: str = ""


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


class Symbols(Struct, frozen=True):
    """Functions of a binary by their virtual address, in two tuples alike, in order."""

    addresses: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


class Binary(Struct, frozen=True):
    """An ELF file that is traced. ``build_id`` is hexadecimal, or empty.

    With ``go`` events of its functions, but for foreign ones, carry the
    goroutine, and their frames are distances from the top of its stack,
    negative and modulo 2**64. ``symbols`` are there where some value is a
    pointer to code; fetches of the instruction pointer then tell where a
    process has the binary.
    """

    path: str
    build_id: str = ""
    machine: Literal["x86_64", "aarch64"] = "x86_64"
    go: GoLayout | None = None
    symbols: Symbols = Symbols()


class Plan(Struct, frozen=True):
    """All that can be decided without the kernel.

    The ``binaries`` are for the same machine. ``notes`` are remarks to the
    user: what was left out, and why.
    """

    binaries: tuple[Binary, ...]
    functions: tuple[Function, ...]
    probes: tuple[Probe, ...]
    notes: tuple[str, ...] = ()

    def goroutines(self, probe: Probe) -> GoLayout | None:
        """How the goroutine is found that hits ``probe``; None where its calls
        belong to threads."""
        return None if probe.foreign else self.binaries[probe.binary].go


class Target(Struct, frozen=True):
    """Which processes are traced: one (``pid``), one that is started
    (``command``) with the children it forks, or all that run the binaries.
    With ``follow`` those that ``pid`` forks are traced too."""

    pid: int = 0
    command: tuple[str, ...] = ()
    follow: bool = False
