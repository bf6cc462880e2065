"""A plan, and the target that it is for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.model.fetching import Condition, Fetch
from lbtrace.model.jumps import Jump, RegisterTest
from lbtrace.values.base import Value


class Function(Struct, frozen=True):
    """A function of the binary at position ``binary`` of `Plan.binaries`.

    Functions that several binaries of a plan have are called ``name@binary``.
    ``address`` is its virtual address in the file, ``size`` its length in
    bytes (0 where the symbol table does not say), ``offset`` the position of
    its first byte in the file. ``aliases`` are the other names of the same
    address. ``parameters`` and ``result`` are what is traced of it, ``typed``
    says whether they come from debug information. ``returns`` says how its
    returns are seen (``uretprobe``, ``sites``, ``marker`` or ``none``) and, after a colon, why.
    With ``exits_hidden`` it can be left in ways no probe watches, with ``may_jump`` by a jump to
    another function, which a uretprobe does not see. One that ``restarts`` has a jump back to its
    first instruction, so that its entry probe may be hit again within a call. ``language`` decides
    how names and values are written. Other files cannot refer to a ``local`` function, which has no
    global symbol.
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
    restarts: bool = False
    binary: int = 0
    local: bool = False


class Site(Struct, frozen=True):
    """A place in a function's code for a probe.

    ``offset`` is its position in the file, ``address`` its virtual address.
    ``sp_delta`` is how far, in bytes, the stack pointer lies below its value
    at function entry when the probe fires. ``displaced`` is the instruction
    under the breakpoint, ``emulated`` whether the kernel emulates it (cheap)
    or single-steps it (expensive), ``reason`` why this place was chosen. A hit does not count if
    one of the processor's flags ``unless`` is set, nor, if there are any in ``only``, if none of
    them is (bits of EFLAGS or PSTATE, and those of `lbtrace.model.jumps`), nor if it is on a jump
    that does not pass its ``test`` of a register, or on a ``jump`` that stays in the function.
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


NO_FUNCTION = -1
"""`Probe.function` of one that belongs to a binary, but to none of its functions."""


SENDING = frozenset({"send", "keep"})
"""Actions of probes whose hits become events; all others gather."""


class Probe(Struct, frozen=True):
    """A ``site`` in the binary at position ``binary`` of `Plan.binaries`, and what is done
    when it is hit. Its position in `Plan.probes` is the number its events carry.

    ``role`` is what a hit means for the calls of its lane, a row of `lbtrace.probes.ROLES`:
    a call is a probe that ``opens`` it and others that close it. ``source`` says how it is
    attached, a row of `lbtrace.probes.PROBES`. Events are made of the ``fetches``, where the
    ``conditions`` hold. ``action`` says what becomes of a hit then: ``send`` an event;
    ``keep`` the values until the closing probe sends both, or neither; all others gather in
    the kernel, each in its table (`lbtrace.tables`). Where that takes a value, it is the one
    of slot ``gathers``: of a fetch, or of what is known of each hit (``LBT_SLOT_DURATION`` and
    others in ``bpf_src/lbtrace.h``). ``place`` is what the source's attach type needs besides the
    site, in words of its own.

    Entries and exits of a function that ``keeps`` a register agree on what it held at entry.
    A ``gate`` probe opens or closes a call of a function that `Plan.within` names. One that
    ``joins`` is of a function to which these jump, so that its frame may be the same.
    A ``foreign`` probe is in code of another language in a program of Go, or where goroutines are
    unknown: its calls belong to threads. An ``assembly`` probe is in code that may use the register
    of Go's g for something else: the goroutine is asked of the thread.

    Probes of the same ``pair`` open and close calls that no frame tells from others: those are of
    one call whose values of the ``key`` are equal. One that begins where the stack pointer is no
    lower shows that a former one is over, unless it is the same and key and site are others, or
    ``nests`` says that they nest without the stack's growing. Those of a pair that ``crosses`` are
    paired by their keys alone. What opens a call is
    a point where no probe closes it: not yet, where that is in a later addition. The probes of an
    addition are attached ``since`` then (CLOCK_MONOTONIC, ns; 0: from the start). One with the role
    ``more values`` adds its ``values`` to the function's parameters.

    One with the role ``tail`` says in ``leads_to`` to which function the call jumps, ``?`` where
    that is unknown; empty in captures of versions that ended all such calls there. Where the call
    ``goes_on``, it returns when that function does, and ``fetches`` are how its result is fetched
    then. Its return is seen by the exits of traced functions at the same frame or, with a
    ``relay``, by a probe with the role ``tail return`` and the same number.
    """

    site: Site
    role: str
    function: int = NO_FUNCTION
    source: str = "uprobe"
    fetches: tuple[Fetch, ...] = ()
    conditions: tuple[Condition, ...] = ()
    action: str = "send"
    foreign: bool = False
    binary: int = 0
    keeps: str = ""
    gathers: int = -1
    place: str = ""
    pair: str = ""
    key: tuple[Value, ...] = ()
    nests: bool = False
    gate: bool = False
    joins: bool = False
    crosses: bool = False
    assembly: bool = False
    values: tuple[Value, ...] = ()
    since: int = 0
    leads_to: str = ""
    goes_on: bool = False
    relay: int = 0


class GoLayout(Struct, frozen=True):
    """Where a Go program keeps what identifies a goroutine.

    ``g`` says where the pointer to the running goroutine's ``runtime.g`` is:
    in its ``register`` (r14 from Go 1.17 on, x28 on arm64) or in the word
    below the ``thread`` pointer (amd64, every version). ``goid`` and
    ``stack_high`` are the offsets of ``g.goid`` and ``g.stack.hi``. ``types``
    are the names of the program's types by their hash, in two tuples alike, and ``kinds``
    in a third what package ``reflect`` calls their kinds.
    """

    g: Literal["register", "thread"]
    goid: int
    stack_high: int = 8
    types: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())
    kinds: tuple[int, ...] = ()


class Symbols(Struct, frozen=True):
    """Functions of a binary by their virtual address, in two tuples alike, in order."""

    addresses: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


class Binary(Struct, frozen=True):
    """An ELF file that is traced. ``build_id`` is hexadecimal, or empty.

    With ``go`` events of its functions, but for foreign ones, carry the
    goroutine, and their frames are distances from the top of its stack,
    negative and modulo 2**64. ``symbols`` are there where some value is a
    pointer to code; fetches of the instruction pointer then show where a process has mapped the
    binary.
    """

    path: str
    build_id: str = ""
    machine: str = ""
    go: GoLayout | None = None
    symbols: Symbols = Symbols()


UnseenSwitches: TypeAlias = Literal["", "any", "earlier", "exchanges"]
"""Which switches between stacks may not be seen: all that have no probe, or those between stacks
that a process has set up before the trace, but not in a program that it executes meanwhile, or all
and exchanges of what is on a stack."""


class Plan(Struct, frozen=True):
    """All that can be decided without the kernel.

    The ``binaries`` are for the same machine. ``notes`` are remarks to the
    user: what was left out, and why. Where there may be ``unseen_switches`` between stacks, no call
    counts as left. Where there are patterns of functions in ``within``, only
    what happens below calls of these is sent, and these calls. Where it ``may_grow``, additions
    may come while it runs, whose probes do ``added_action``. Calls less deep than
    ``shown_depth`` are to be shown, unless a reader asks for others; 0: all.
    """

    binaries: tuple[Binary, ...]
    functions: tuple[Function, ...]
    probes: tuple[Probe, ...]
    notes: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    may_grow: bool = False
    added_action: str = "send"
    unseen_switches: UnseenSwitches = ""
    shown_depth: int = 0

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions of its probes, and of those that may be added."""
        added = (self.added_action,) if self.may_grow else ()
        return tuple(dict.fromkeys((*(probe.action for probe in self.probes), *added)))

    def grown(self, addition: Addition) -> Plan:
        """Return the plan with an addition to it."""
        return replace(
            self,
            binaries=self.binaries + addition.binaries,
            functions=self.functions + addition.functions,
            probes=self.probes + addition.probes,
            notes=self.notes + addition.notes,
        )

    def goroutines(self, probe: Probe) -> GoLayout | None:
        """Return how the goroutine is found that hits ``probe``; None where its calls
        belong to threads."""
        go = None if probe.foreign else self.binaries[probe.binary].go
        return replace(go, g="thread") if go and probe.assembly else go


class Addition(Struct, frozen=True):
    """What a plan gets while its trace runs, after what it has: files that a process mapped
    meanwhile, and the probes there. Binaries and functions are numbered as in the plan with
    it; ``after`` is how many binaries, functions and probes the plan had before."""

    after: tuple[int, int, int]
    binaries: tuple[Binary, ...] = ()
    functions: tuple[Function, ...] = ()
    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()


class Target(Struct, frozen=True):
    """Which processes are traced: one (``pid``), one that is started
    (``command``) with the children it forks, or all that run the binaries.
    With ``follow`` those that ``pid`` forks are traced too. The command runs as ``user``,
    empty for the user of lbtrace."""

    pid: int = 0
    command: tuple[str, ...] = ()
    follow: bool = False
    user: str = ""
