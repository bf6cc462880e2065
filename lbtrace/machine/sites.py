"""The one place that hands out addresses at which probes may be placed.

A breakpoint in the middle of an instruction, or in data, changes what the
program does. So an address is handed out only if an instruction begins there
that decoding from a known start of code reaches along control flow. Known
starts are symbols of functions, what unwind information describes, the tables
of Go and landing pads. Until then, what looks like an instruction counts as data.
Nor is an address handed out in a sequence of instructions that the kernel restarts.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from lbtrace.machine import Machine
from lbtrace.machine.code import Code, Exit, Exits
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.restartable import Sequences
from lbtrace.model import Site

KEPT = 16
"""At most this many functions have all their instructions kept, because neighbours are needed,
too."""

NO_FUNCTION = "it is in no function that is known"
UNREACHED = "no code is seen to lead there"
INSIDE = "it is amid an instruction"
NO_NOP = "it is no nop, and no code is seen to lead there"
RESTARTED = "it is in a sequence that the kernel restarts (rseq), which a probe would break"
"""Why there is no site, as clauses for users."""


class KnownFunctions(Around, Protocol):
    """A binary, as far as its functions are known."""

    def holding(self, address: int) -> Body | None:
        """Return the function that may hold ``address``; None where no known one does."""

    @property
    def sequences(self) -> Sequences:
        """The restartable sequences of the binary."""


class ProbeSites:
    """Hands out the sites of one binary."""

    def __init__(self, machine: Machine, known: KnownFunctions) -> None:
        self.machine = machine
        self._planner = machine.site_planner()
        self._finder = machine.exit_finder()
        self.entry = self._planner.choose
        self.may_loop_to_entry = self._finder.may_loop_to_entry
        self._known = known
        self._reached: dict[tuple[int, tuple[int, ...]], dict[int, int]] = {}
        self._pads: set[int] = set()

    def exits(self, body: Body) -> Exits:
        """See `lbtrace.machine.ExitFinder.exits`."""
        exits = self._finder.exits(body.parts, self._known, body.pads)
        self._pads.update(exits.pads)
        if not self._known.sequences:
            return exits
        watched = [self._outside(body, each) for each in exits.exits]
        return replace(
            exits,
            exits=tuple(filter(None, watched)),
            hidden=exits.hidden + ("exits amid restartable sequences",) * (None in watched),
            # No call is left where a sequence is.
            pads=tuple(p for p in exits.pads if p not in self._known.sequences.handlers),
        )

    def _outside(self, body: Body, leaving: Exit) -> Exit | None:
        """What of ``leaving`` is outside of restartable sequences."""
        if self._restarts(body, leaving.site.address):
            return None
        if any(self._restarts(body, entry.site.address) for entry in leaving.entries):
            return replace(leaving, entries=())
        return leaving

    def _restarts(self, body: Body, address: int) -> bool:
        """Whether the instruction at ``address`` belongs to a restartable sequence, or announces
        the one that begins after it."""
        if not self._known.sequences:
            return False
        return self._known.sequences.touch(address, self._around(body).get(address, address))

    def is_instruction(self, address: int) -> bool:
        """Return whether control flow reaches an instruction that begins at ``address``."""
        return address in self._around(self._known.holding(address))

    def continues_to(self, address: int, after: int) -> bool:
        """Return whether control flow reaches the instruction at ``address``, and continues to the
        one at ``after``, which follows it."""
        reached = self._around(self._known.holding(address))
        return reached.get(address) == after and after in reached

    def start(self, address: int, offset: int, *, stub: bool) -> Site | None:
        """Return a site at the first instruction of a function, or of a ``stub`` that leads to
        one."""
        if not stub:
            body = self._known.holding(address)
            if body is None or body.parts[0].address != address:
                return None
        return Site(address, offset)

    def at(self, address: int) -> Site | str:
        """Return a site at ``address``; or why a probe would be refused or do harm, as a clause."""
        body = self._known.holding(address)
        if body is None:
            return NO_FUNCTION
        if address not in self._pads and address not in self._around(body):
            return UNREACHED
        return self._site(body, address)

    def marked(self, address: int) -> Site | str:
        """Return a site at a marker; or why a probe would be refused or do harm, as a clause.

        The assembler says that an instruction begins there, a nop. Control flow need not
        be seen to reach it: a part that was split off a function, without a symbol, has several
        entries. But it must not be seen to reach an instruction in the middle of which it is."""
        site = self.at(address)
        body = self._known.holding(address)
        if site != UNREACHED or body is None:
            return site
        if any(start < address < end for start, end in self._around(body).items()):
            return INSIDE
        site = self._site(body, address)
        return site if isinstance(site, str) or site.displaced == "nop" else NO_NOP

    def _site(self, body: Body, address: int) -> Site | str:
        parts = (p for p in body.parts if p.address <= address < p.address + len(p.code))
        part = next(parts, None)
        if part is None:
            return NO_FUNCTION
        if self._restarts(body, address):
            return RESTARTED
        into = address - part.address
        code = Code(part.code[into : into + 16], address, part.offset + into, address + 1)
        return self._planner.point(code)

    def _around(self, body: Body | None) -> dict[int, int]:
        """The instructions that control flow reaches in a function, and their ends."""
        if body is None:
            return {}
        key = body.parts[0].address, body.pads
        found = self._reached.get(key)
        if found is None:
            if len(self._reached) >= KEPT:
                del self._reached[next(iter(self._reached))]
            found = self._finder.reached(body.parts, self._known, body.pads)
            self._reached[key] = found
        return found
