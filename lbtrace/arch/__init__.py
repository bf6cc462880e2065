"""Processors: where a probe may stand and what it costs, where arguments and results lie.

`amd64` and `arm64` offer the same functions; `of` picks one by machine name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from lbtrace.arch.fetching import collected
from lbtrace.arch.places import Detail, Place
from lbtrace.model import Condition, Fetch, Prototype, Site, Value, Void


class Passing(Struct, frozen=True):
    """How a function's values travel: what an event shows, and how to fetch it.

    ``fetches`` belong to the entry, ``result_fetches`` to the return; slots
    index them. ``cut`` counts parameters that could be read but have no slot
    left.
    """

    parameters: tuple[Value, ...] = ()
    result: Value | None = None
    fetches: tuple[Fetch, ...] = ()
    result_fetches: tuple[Fetch, ...] = ()
    cut: int = 0
    conditions: tuple[Condition, ...] = ()
    result_conditions: tuple[Condition, ...] = ()

    @property
    def kept(self) -> str:
        """The register of whose content at entry the result is fetched, or ``""``."""
        return next((f.register for f in self.result_fetches if f.base == "kept"), "")

    @property
    def registers(self) -> set[str]:
        """Those that must hold at the probe of the entry what they held at entry."""
        return {f.register for f in self.fetches if f.base == "register"} | {self.kept} - {""}


class Places(Struct, frozen=True):
    """Where each parameter lies at entry, and the result at return."""

    parameters: tuple[Place, ...]
    result: Place


SHALLOW = Detail()


def fetched(prototype: Prototype, places: Places, limit: int, detail: Detail) -> Passing:
    """What to fetch of a function whose values lie at ``places``."""
    placed = list(zip(prototype.parameters, places.parameters, strict=True))
    parameters, entry = collected(
        limit, detail, lambda own: tuple(own.value(f.name, f.type, place) for f, place in placed)
    )
    declared = prototype.result
    if declared is None or isinstance(declared.type, Void):
        return Passing(parameters, None, entry.fetches, (), entry.cut)
    result, after = collected(
        limit, detail, lambda own: own.value("", declared.type, places.result)
    )
    return Passing(parameters, result, entry.fetches, after.fetches, entry.cut)


class Code(Struct, frozen=True):
    """The code of a function: ``code`` begins at ``address`` (``offset`` in the file).

    ``limit`` is the address behind which no probe of it may stand: its end
    or the next symbol.
    """

    code: bytes
    address: int
    offset: int
    limit: int


ExitKind: TypeAlias = Literal["return", "tail"]
"""A return to the caller, or a jump to another function that returns in its place."""


class Exit(Struct, frozen=True):
    """An instruction by which a function is left.

    The stack pointer is there what it was at entry.
    """

    kind: ExitKind
    site: Site


class Exits(Struct, frozen=True):
    """How a function is left: ``exits``, in the order of their addresses.

    ``hidden`` tells the further ways out that no probe can watch.
    """

    exits: tuple[Exit, ...]
    hidden: tuple[str, ...] = ()


class StackSwitch(Struct, frozen=True):
    """An instruction by which another stack is taken up, and how to fetch its pointer;
    None where that cannot be told."""

    address: int
    pointer: Fetch | None


class Stored(NamedTuple):
    """A place behind a function's first instructions, and what is known there.

    ``words`` say what fetches the content that registers had at entry, and how many
    of its lowest bytes: integer registers by their name, vector registers as in
    ``float in xmm0``. ``slots`` say which of them lies where in memory, as a distance
    from the stack pointer at entry; ``bases`` are those of what DWARF calls
    registers, by their number, and of `CFA`; ``once`` those of bytes that were written
    exactly once since.
    """

    site: Site
    words: dict[str, tuple[Fetch, int]]
    slots: dict[int, str]
    bases: dict[int, int]
    once: frozenset[int]


Read: TypeAlias = Callable[[int, int], bytes]
"""Reads bytes of a binary: address and size."""


class Planner(Protocol):
    """Chooses the places of probes. One object serves any number of functions."""

    def choose(self, code: Code, keep: Collection[str], *, returns: bool) -> Site | None:
        """The cheapest place at which the registers ``keep`` hold what they held at entry.

        With ``returns`` the stack pointer points at the return address there.
        None if the kernel refuses a probe at every place that would do.
        """

    def stored(self, code: Code, read: Read) -> Iterator[Stored]:
        """The places further on, in order, at which memory or integer registers hold
        what vector registers held at entry.

        A probe there fires once a call, before anything is called or written that is
        not the function's own.
        """

    def results(
        self, code: Code, returns: Collection[int], read: Read
    ) -> dict[str, tuple[Fetch, int]]:
        """What fetches the vector registers with a result, as in `Stored`, from integer
        registers that hold the same at each of the addresses ``returns``."""


class ExitFinder(Protocol):
    """Finds where functions are left. One object serves any number of them."""

    def exits(
        self, parts: Sequence[Code], more: Callable[[int], Code | None], pads: Sequence[int] = ()
    ) -> Exits:
        """Where the function with the code ``parts`` is left; it begins with the first.

        ``more`` is asked for the code at an address outside of them that the
        function jumps to: None says that another function begins there. At
        ``pads`` it goes on after exceptions.
        """


class Architecture(Protocol):
    """What `amd64` and `arm64` both offer."""

    @property
    def REGISTERS(self) -> tuple[str, ...]:
        """The names of the registers that can be read."""

    def passing(self, prototype: Prototype, limit: int, detail: Detail = SHALLOW) -> Passing:
        """How the values of ``prototype`` travel: at most ``limit`` fetches at
        entry and as many at return."""

    def places(self, prototype: Prototype) -> Places:
        """Where the parameters and the result of ``prototype`` lie."""

    def planner(self) -> Planner:
        """A chooser of places."""

    def exit_finder(self) -> ExitFinder:
        """A finder of the places at which functions are left."""

    @property
    def CALL_SINKS(self) -> int:
        """Bytes by which a call lets the stack pointer sink."""

    def stack_switches(self, code: bytes, address: int) -> Iterator[StackSwitch]:
        """Where ``code`` at ``address`` takes up another stack, as fibers do in assembly."""

    def behind_calls(
        self, code: bytes, address: int, targets: Collection[int], starts: Sequence[int]
    ) -> Iterator[int]:
        """The addresses behind the calls of ``targets`` in ``code`` at ``address``, where
        functions begin at ``starts``, which are in order."""


def of(machine: str) -> Architecture:
    """The architecture of an ELF machine: ``x86_64`` or ``aarch64``."""
    if machine == "aarch64":
        from lbtrace.arch import arm64

        return arm64
    from lbtrace.arch import amd64

    return amd64
