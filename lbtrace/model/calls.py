"""Calls, losses and summaries: the results of matching events."""

from __future__ import annotations

from typing import Literal, SupportsIndex, TypeAlias, TypeVar, overload

from msgspec import Struct, field

from lbtrace.model import wire_limits
from lbtrace.model.events import Counted, Frame, Losses
from lbtrace.text import clean
from lbtrace.text import duration as duration_text
from lbtrace.values.datum import Argument, Datum, find_value, keys_of
from lbtrace.values.notation import argument_text, results_text, text

T = TypeVar("T")

End: TypeAlias = Literal["returned", "unwound", "tail", "open", "point"]
"""How a call ended: it returned; its frame was left by an exception, longjmp
or the like; it jumped into another traced function; no end was seen. A ``point`` is no call, but a
place that the program came by: it has a name, a time and values."""

ENDS: dict[End, str] = {"unwound": "✗ unwound", "tail": "→ tail call", "open": "… no return seen"}
"""How a call ended that did not return, in words. A cross means that it failed."""


def end_text(end: End, exception: Datum) -> str:
    """Return how a call ended that did not return, which an ``exception`` may have left."""
    return f"✗ {text(exception)}" if exception else ENDS[end]


STACK_ENDS = {
    wire_limits.END_OUTERMOST: "outermost",
    wire_limits.END_LIMIT: "limit",
    wire_limits.END_NO_TABLE: "no table",
    wire_limits.END_UNREADABLE: "unreadable",
    wire_limits.END_ANONYMOUS: "made code",
    wire_limits.END_BUSY: "mappings change",
    wire_limits.END_NOT_YET: "table not loaded yet",
    wire_limits.END_HOOKED: "return replaced",
}
"""Why a stack has no further callers: enum lbt_stack_end of bpf_src/wire.h."""


class Callers(Struct, frozen=True):
    """The ``frames`` that led to a call, the innermost first. ``end`` says why there are no further
    ones: a value of `STACK_ENDS`, ``outermost`` where there are none."""

    frames: tuple[Frame, ...] = ()
    end: str = "outermost"


class Arguments(tuple[Argument, ...]):
    """The arguments of a call: a tuple of `Argument`, whose values are also found by name.

    ``args["n"]`` is the value of the argument ``n``, ``args[0]`` the first argument,
    ``"n" in args`` says whether there is one, and ``dict(args)`` is all values by name. Of
    arguments with the same name the second is called ``n#2``. Raises `KeyError` where no
    argument has the name.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, key: str) -> Datum: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> Argument: ...
    @overload
    def __getitem__(self, key: slice) -> Arguments: ...
    def __getitem__(self, key: str | SupportsIndex | slice) -> Datum | Argument | Arguments:
        if isinstance(key, str):
            return find_value(self, key)
        if isinstance(key, slice):
            return Arguments(super().__getitem__(key))
        return super().__getitem__(key)

    def __contains__(self, item: object) -> bool:
        return item in self.keys() if isinstance(item, str) else super().__contains__(item)

    @overload
    def get(self, name: str) -> Datum: ...
    @overload
    def get(self, name: str, default: T) -> Datum | T: ...
    def get(self, name: str, default: T | None = None) -> Datum | T | None:
        """Return the value of the argument of that name, ``default`` where there is none."""
        return find_value(self, name) if name in self.keys() else default

    def keys(self) -> list[str]:
        """Return the names, in order, each different."""
        return keys_of(argument.name for argument in self)

    def values(self) -> list[Datum]:
        """Return the values, in order."""
        return [argument.value for argument in self]

    def items(self) -> list[tuple[str, Datum]]:
        """Return names and values, in order."""
        return [*zip(self.keys(), self.values(), strict=True)]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self))})"


class Call(Struct):
    """One call of a traced function; ``str(call)`` is a line such as ``fib(n=4) = 3``, and
    ``call["n"]`` is short for ``call.args["n"]``.

    * ``name``: the function. ``binary``: the path of the file that it is in.
    * ``args``: its arguments, by number and by name (`Arguments`).
    * ``result``: what it returned; None until then, and of a function without a result.
    * ``start``: when it began, CLOCK_MONOTONIC in ns. ``duration``: how long it took, in ns;
      None where its end was not seen.
    * ``end``: ``returned``; ``unwound`` where an exception, longjmp or the like left its frame;
      ``tail`` where it jumped to a function whose return is not watched, which ``leads_to``
      names (``?`` if unknown); ``open`` where no end was seen. A ``point`` is a place inside of a
      function that the program came by (a line), not a call.
    * ``exception``: what left its frame, if that is known: its ``type`` and ``what``.
    * ``depth``: 0 at the outermost traced call of its thread.
    * ``pid``, ``tid``: the process and the thread. ``thread_name``: the thread's name (comm) when
      the call ended, empty where it is not known. ``goroutine``: in Go its number, on a stack
      that the program made itself (a coroutine's) the address of that stack, else 0.
    * ``cpu``: the processor on which it began, ``end_cpu`` that on which it returned; None where
      that was not seen.
    * ``blocked``, ``runnable``: how much of ``duration`` its thread was blocked, and waited for a
      processor, in ns; None where that was not asked (``off_cpu``) or is not known.
    * ``lost``: how many events its thread lost just before it.
    * ``frame``: the stack pointer at the function's entry. ``probe``: the number of the probe in
      `Plan.probes` that saw it.
    * ``callers``: the stack that led to it, where that was asked for.
    * ``parent``: the traced call that it was made from, which may not have ended yet; None at the
      outermost one. ``inside``: how long the calls took that were made from it, in ns; None where
      the end of one was not seen.
    """

    name: str
    pid: int
    tid: int
    depth: int
    start: int
    frame: int
    probe: int
    args: Arguments = Arguments()
    result: Datum = None
    duration: int | None = None
    end: End = "open"
    lost: int = 0
    goroutine: int = 0
    binary: str = ""
    cpu: int | None = None
    end_cpu: int | None = None
    leads_to: str = ""
    callers: Callers | None = None
    thread_name: str = ""
    exception: Datum = None
    blocked: int | None = None
    runnable: int | None = None
    parent: Call | None = None
    inside: int | None = 0

    @property
    def self_time(self) -> int | None:
        """How long it took itself, in ns: its duration without that of the calls that were made
        from it and are shown; None where that is not known."""
        known = self.duration is not None and self.inside is not None
        return self.duration - self.inside if known else None  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        """Return whether all is the same but the parents, of which there may be thousands."""
        if not isinstance(other, Call):
            return NotImplemented
        names = [name for name in self.__struct_fields__ if name != "parent"]
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        took = "" if self.duration is None else f", {duration_text(self.duration)}"
        return f"<lbtrace.Call {self}{took}, thread {self.tid}, depth {self.depth}>"

    def __getitem__(self, key: str | int) -> Datum:
        """Return the value of the argument of that name or number."""
        return find_value(self.args, key)

    def __contains__(self, name: object) -> bool:
        """Return whether an argument has that name."""
        return name in keys_of(each.name for each in self.args)

    def __str__(self) -> str:
        """Return a line fit for a terminal."""
        shown = f"{clean(self.name)}({', '.join([argument_text(each) for each in self.args])})"
        if self.end == "point":
            return shown
        if self.end == "tail" and self.leads_to:
            return f"{shown} → {clean(self.leads_to)}"
        if self.end != "returned":
            return f"{shown} {end_text(self.end, self.exception)}"
        if self.result is None:
            return shown
        return f"{shown} = {results_text(self.result) if self.goroutine else text(self.result)}"


class InheritedCall(Call):
    """A call inside of which a process was forked, as this process continues it.

    It is no call of its own: the one of the process that made it is counted, and has a duration.
    ``maker`` is the thread that made it, ``forked`` when the process was forked. ``pid``, ``tid``,
    ``result``, ``end`` and ``end_cpu`` are those here, and ``until`` is when it returned here;
    ``duration`` is always None. All else is that of the call.
    """

    maker: int = 0
    forked: int = 0
    until: int | None = None


class Fork(Struct, frozen=True):
    """A process that was forked inside of ``calls``, outermost first, which it continues:
    ``depth`` of them, but for those that are not shown. They are as their makers have them.
    ``parent`` is the thread that forked it, ``parent_pid`` its process."""

    pid: int
    tid: int
    depth: int
    time: int
    parent: int
    parent_pid: int
    calls: tuple[Call, ...] = ()
    goroutine: int = 0


class Loss(Struct, frozen=True):
    """``count`` events of a thread or goroutine are missing at this place in its calls,
    ``entries`` of them beginnings of calls, the others returns."""

    pid: int
    tid: int
    depth: int
    time: int
    count: int
    entries: int = 0
    goroutine: int = 0


class Summary(Struct):
    """The totals of a finished trace. ``interrupted`` says that its capture has no end, ``damaged``
    that parts of it could not be read. Unless ``losses_known``, more may have been lost than
    ``losses`` say. ``counted`` are the hits that were counted in the kernel, None where
    calls are sent, each a ``counts``, ``points`` those of places inside of functions. Where
    ``calls_kernel``, some calls are the kernel's."""

    calls: int = 0
    losses: Losses = field(default_factory=Losses)
    processes: int = 0
    threads: int = 0
    interrupted: bool = False
    damaged: bool = False
    losses_known: bool = True
    counted: int | None = None
    points: int = 0
    counts: Counted = "call"
    calls_kernel: bool = False
