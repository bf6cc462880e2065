"""A plan, and the target that it is for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from lbtrace.model.clock import Clock
from lbtrace.model.events import Counted, Frame
from lbtrace.model.fetching import Condition, Fetch
from lbtrace.model.jumps import Jump
from lbtrace.model.kernel_event import KernelEvent
from lbtrace.values.base import Type, Value


class Function(Struct, frozen=True):
    """A traced function."""

    name: str
    """``name@binary`` where several binaries of the plan have a function of that name."""
    address: int
    """Virtual address in the file."""
    size: int
    """Bytes of code; 0 if the symbol table does not say."""
    offset: int
    """Position of the first byte in the file."""
    aliases: tuple[str, ...] = ()
    """Other names of the same address."""
    parameters: tuple[Value, ...] = ()
    """The arguments that are traced."""
    result: Value | None = None
    """The result that is traced."""
    typed: bool = False
    """Whether parameters and result come from debug information."""
    returns: str = ""
    """How returns are seen (``uretprobe``, ``sites``, ``marker`` or ``none``), and after a colon
    why."""
    exits_hidden: bool = False
    """Some exits have no probe."""
    language: Literal["", "go"] = ""
    """Decides how names and values are written."""
    may_jump: bool = False
    """It may end by a jump to another function, which a uretprobe does not see."""
    loops_to_entry: bool = field(default=False, name="restarts")
    """It jumps back to its first instruction: the entry probe may be hit again within a call."""
    binary: int = 0
    """Position of its file in `Plan.binaries`, or `NO_BINARY`."""
    local: bool = False
    """It has no global symbol: other files cannot refer to it."""


class Site(Struct, frozen=True):
    """A place in a function's code for a probe."""

    address: int
    """Virtual address in the file."""
    offset: int
    """Position in the file."""
    sp_delta: int = 0
    """Bytes that the stack pointer lies below its value at function entry when the probe fires."""
    displaced: str = ""
    """The instruction under the breakpoint."""
    emulated: bool = False
    """Whether the kernel emulates that instruction (cheap) or single-steps it (expensive)."""
    reason: str = ""
    """Why this place was chosen."""
    unless: int = 0
    """A hit does not count if one of these flags is set: bits of EFLAGS or PSTATE, and those of
    `lbtrace.model.jumps`."""
    only: int = 0
    """If not 0, a hit counts only if one of these flags is set."""
    jump: Jump | None = None
    """A hit does not count if this jump stays in the function."""


NO_FUNCTION = -1
"""`Probe.function` of one that belongs to a binary, but to none of its functions."""

NO_BINARY = -1
"""Where a file is named of a probe, or of what it shows, that is in none."""


SENDING = frozenset({"send", "keep"})
"""Actions of probes whose hits become events; all others aggregate."""


class Grouping(Struct, frozen=True):
    """By which values a probe aggregates, and of which: ``struct lbt_aggregate_key``."""

    by: tuple[Value, ...] = ()
    """The values. Their slots are words of the key, the first ``texts`` of which have texts."""
    texts: int = 0
    """How many of the words are strings or bytes."""
    slots: tuple[int, ...] = ()
    """Slot of the value that the probe has for each word; -1: the other probe of the call has."""
    measures: tuple[int, ...] = ()
    """Slots of the values that are aggregated, more than ``LBT_FROM_ENTRY`` of the entry's."""
    unsigned: tuple[bool, ...] = ()
    """Which of these have 64 bits and no sign."""


class Probe(Struct, frozen=True):
    """A place in a file or an event of the kernel, and what happens when a thread hits it.

    Its position in `Plan.probes` is the number that its events carry.
    """

    site: Site
    """Where it is in its file. At an event only ``sp_delta`` counts."""
    role: str
    """What a hit means for the calls of its lane: a row of `lbtrace.probes.ROLES`. A call has one
    probe that ``opens`` it, and others that close it."""
    function: int = NO_FUNCTION
    """Position of its function in `Plan.functions`."""
    source: str = "uprobe"
    """How it is attached: a row of `lbtrace.probes.PROBES`."""
    fetches: tuple[Fetch, ...] = ()
    """The values that its events carry."""
    conditions: tuple[Condition, ...] = ()
    """What must hold of a hit; else it has no effect."""
    action: str = "send"
    """``send`` an event; ``keep`` the values until the closing probe sends both, or neither; all
    others aggregate in the kernel (`lbtrace.tables`)."""
    foreign: bool = False
    """Its calls belong to threads: code of another language in a Go program, or goroutines that
    are unknown."""
    binary: int = 0
    """Position of its file in `Plan.binaries`, or `NO_BINARY`."""
    shows_left: bool = False
    """With ``keep``: the values are also sent if an exception leaves the call."""
    keeps: str = ""
    """Registers saved at entry for use at return, at most ``LBT_KEPT``, separated by spaces."""
    aggregates: int = field(default=-1, name="gathers")
    """Slot of the value that the action aggregates: of a fetch, or of what every hit has
    (``LBT_SLOT_DURATION`` and others in ``bpf_src/lbtrace.h``)."""
    grouping: Grouping | None = None
    """Of an action that aggregates by values, or of several; else it does by process."""
    place: str = ""
    """What its source's attach type needs besides the site."""
    pair: str = ""
    """Probes of this pair are matched by equal `key` values, not by stack frame."""
    key: tuple[Value, ...] = ()
    """The values by which a pair is matched."""
    nests: bool = False
    """Calls of the pair nest without growing the stack. Otherwise a call that begins where the
    stack pointer is no lower ends the former one, unless it is the same and key and site differ."""
    gate: bool = False
    """It opens or closes a call of a function that `Plan.within` names."""
    joins: bool = False
    """Functions that `Plan.within` names jump to its function, so that its frame may be theirs."""
    assembly: bool = False
    """Its code may use the register of Go's g for something else: the goroutine is read from the
    thread."""
    values: tuple[Value, ...] = ()
    """Of role ``more values``: added to the function's parameters."""
    since: int = 0
    """When a probe of an addition was attached (CLOCK_MONOTONIC, ns); 0: from the start."""
    leads_to: str = ""
    """Role ``tail``: the function to which the call jumps, ``?`` if unknown."""
    goes_on: bool = False
    """The call returns when the function does to which it jumps; ``fetches`` are its result's."""
    relay: int = 0
    """Number of the ``tail return`` probes that see this return; 0: traced functions' exits do."""
    event: KernelEvent | None = None
    """Where it is, if in no file: ``binary`` is `NO_BINARY` then."""


class GoLayout(Struct, frozen=True):
    """Where a Go program keeps what identifies a goroutine."""

    g: Literal["register", "thread"]
    """Where the pointer to the running goroutine's ``runtime.g`` is: in a register (r14 from Go
    1.17 on, x28 on arm64) or in the word below the thread pointer (amd64, every version)."""
    goid: int
    """Offset of ``g.goid``."""
    stack_high: int = 8
    """Offset of ``g.stack.hi``."""
    types: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())
    """The program's types: their hashes, and their names in the same order."""
    kinds: tuple[int, ...] = ()
    """What package ``reflect`` calls the kinds of these types."""
    held: tuple[tuple[int, ...], tuple[Type, ...]] = ((), ())
    """Hashes of types of errors, and the structs to which the data word of an interface leads."""
    thrown: tuple[tuple[int, ...], tuple[Type, ...]] = ((), ())
    """The same of the program's own structs that are no errors: panics may be of these."""


class Symbols(Struct, frozen=True):
    """Functions of a binary by their virtual address, in two tuples alike, in order. Of each table
    of virtual functions the addresses between which those lie that objects have, and its name."""

    addresses: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    tables: tuple[tuple[int, int, str], ...] = ()


class Binary(Struct, frozen=True):
    """An ELF file that is traced."""

    path: str
    """Its path."""
    build_id: str = ""
    """Hexadecimal, or empty."""
    machine: str = ""
    """A name of `lbtrace.machine.MACHINES`."""
    go: GoLayout | None = None
    """Events of its functions, except foreign ones, carry the goroutine. Their frames are then
    distances from the top of its stack, negative and modulo 2**64."""
    symbols: Symbols = Symbols()
    """Present in captures if some value is a pointer to code. Fetches of the instruction pointer
    then show where a process has mapped the file."""
    names_in: str = ""
    """A path to the file where these are to be read yet, when the first is shown."""


UnseenSwitches: TypeAlias = Literal["", "any", "exchanges"]
"""Which switches between stacks may not be seen: all that have no probe, or these and exchanges of
what is on a stack."""


class Column(Struct, frozen=True):
    """What is shown of a value that is aggregated."""

    how: Literal["sum", "min", "max", "avg"]
    """What of it."""
    name: str
    """How the user calls it."""
    measure: int
    """Which of `Grouping.measures` it is."""


Unwind: TypeAlias = Literal["tables", "fp"]
"""How callers are found: by tables made of ``.eh_frame``, and by frame pointers where a file has
none; or always by frame pointers."""


class Plan(Struct, frozen=True):
    """All that can be decided without the kernel."""

    binaries: tuple[Binary, ...]
    """The traced files, all for one machine."""
    functions: tuple[Function, ...]
    """The traced functions, and what else is shown as calls."""
    probes: tuple[Probe, ...]
    """What is attached, in the order of the numbers that events carry."""
    notes: tuple[str, ...] = ()
    """Warnings to the user: what was left out, and why."""
    within: tuple[str, ...] = ()
    """Patterns of functions: only these calls, and what happens below them, is sent."""
    may_grow: bool = False
    """Additions may come while it runs."""
    added_action: str = "send"
    """The action of the probes of additions."""
    unseen_switches: UnseenSwitches = ""
    """Switches between stacks that may not be seen. If there are any, no call counts as
    unwound."""
    shown_depth: int = 0
    """Calls less deep are shown, unless a reader asks for others; 0: all."""
    by: tuple[str, ...] = ()
    """Names of the values by which is aggregated, ``func`` and ``pid`` among them; none: by these
    two."""
    columns: tuple[Column, ...] = ()
    """What is shown of aggregated values besides."""
    stack_depth: int = 0
    """How many callers of each call, or point, are sent with it."""
    unwind: Unwind = "tables"
    """How callers are found."""
    srcline: bool = False
    """Frames of stacks have lines, and inlined functions are among them."""
    frames: tuple[Frame, ...] = ()
    """Those of all stacks, once each: `Addition` adds them."""
    clock: Clock | None = None
    """When the trace began: present as soon as it runs."""

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions of its probes, and of those that may be added."""
        added = (self.added_action,) if self.may_grow else ()
        return tuple(dict.fromkeys((*(probe.action for probe in self.probes), *added)))

    @property
    def aggregates(self) -> bool:
        """Whether some of its probes aggregate in the kernel."""
        return not SENDING.issuperset(self.actions)

    @property
    def counts(self) -> Counted:
        """What the hits are that aggregate."""
        own = [probe for probe in self.probes if probe.action not in SENDING]
        if any(probe.source == "blocked" for probe in own):
            return "stretch"
        return "point" if own and all(probe.role == "point" for probe in own) else "call"

    @property
    def calls_kernel(self) -> bool:
        """Whether calls are those of the kernel, or some: no exception leaves them."""
        return any(probe.event is not None and probe.role == "opens" for probe in self.probes)

    @property
    def off_cpu(self) -> Probe | None:
        """The probe of where threads were blocked; None where it is not asked how long calls did
        not run."""
        return next((probe for probe in self.probes if probe.source == "off_cpu"), None)

    @property
    def walks_stacks(self) -> bool:
        """Whether stacks are walked: to send callers, or to aggregate by them."""
        return bool(self.stack_depth) or "stacks" in self.actions

    @property
    def traced(self) -> tuple[Binary, ...]:
        """The files of which functions are traced; all, where none is of a file."""
        numbers = {function.binary for function in self.functions}
        found = tuple(each for n, each in enumerate(self.binaries) if n in numbers)
        return found or self.binaries

    @property
    def machine(self) -> str:
        """That of the files, empty where there are none."""
        return self.binaries[0].machine if self.binaries else ""

    def path_of(self, binary: int) -> str:
        """Return the path of a binary, by its position; empty for `NO_BINARY`."""
        return self.binaries[binary].path if binary >= 0 else ""

    def grown(self, addition: Addition) -> Plan:
        """Return the plan with an addition to it."""
        return replace(
            self,
            binaries=self.binaries + addition.binaries,
            functions=self.functions + addition.functions,
            probes=self.probes + addition.probes,
            notes=self.notes + addition.notes,
            frames=self.frames + addition.frames,
        )

    def goroutines(self, probe: Probe) -> GoLayout | None:
        """Return how the goroutine is found that hits ``probe``; None where its calls
        belong to threads."""
        if probe.event:  # of the one program that there is
            go = self.binaries[0].go if len(self.binaries) == 1 else None
        else:
            go = None if probe.foreign else self.binaries[probe.binary].go
        in_thread = probe.assembly or probe.event
        return replace(go, g="thread") if go and in_thread else go


class Addition(Struct, frozen=True):
    """What a plan gets while its trace runs: files that a process mapped, and their probes.

    Binaries and functions are numbered as in the grown plan.
    """

    after: tuple[int, int, int]
    """How many binaries, functions and probes the plan had before."""
    binaries: tuple[Binary, ...] = ()
    """New files."""
    functions: tuple[Function, ...] = ()
    """New functions."""
    probes: tuple[Probe, ...] = ()
    """New probes."""
    notes: tuple[str, ...] = ()
    """New warnings."""
    frames: tuple[Frame, ...] = ()
    """New frames of stacks."""
    first_frame: int = 0
    """How many frames the plan had before."""


class Target(Struct, frozen=True):
    """Which processes are traced: some, a command, or all that run the binaries or meet probes."""

    pids: tuple[int, ...] = ()
    """Running processes."""
    command: tuple[str, ...] = ()
    """A command that is started; the children it forks are traced, too."""
    follow: bool = False
    """Children that those of ``pids`` fork are traced, too."""
    user: str = ""
    """The command runs as this user; empty: as the user of lbtrace."""
    cgroup: str = ""
    """The processes in this cgroup (version 2) and those below it."""
    every: bool = False
    """Every process of the machine, but lbtrace; for probes that are in no file."""

    def each(self) -> list[Target]:
        """Return a target for each of several ``pids``, otherwise this one."""
        return [replace(self, pids=(pid,)) for pid in self.pids] or [self]
