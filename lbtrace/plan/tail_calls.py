"""Where traced functions jump to other functions, which return in their place, and what sees that.

A call that ends by a jump returns when its target does: at the same frame, with the same result.
Where the target is traced, its own exits tell. Where it is not, but all of its exits are known, or
where conditions may leave out calls of the target, its exits get probes of the role ``tail return``
(*relays*), one for each way to fetch a result. They send events only of calls that have jumped.
Where jumps through the PLT lead cannot be known, nor through pointers but those that the loader
sets to code of the same file, and many others would pay for relays in a busy target: such calls
return behind those direct calls of their function that the file has, where relays are as well. If
they return elsewhere, which the kernel finds out at the jump, they end there (source
``otherwise``). What such a function of the C library returns may be known before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.elf.demangle import short
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.elf.symbols import Symbols
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine.code import Exit, Exits
from lbtrace.model import Condition, Fetch, Function, Probe, Site
from lbtrace.plan.busy_functions import BusyFunctions
from lbtrace.plan.placement import Placer
from lbtrace.plan.return_places import find_return_places
from lbtrace.plan.return_sites import return_sites
from lbtrace.probes.sources import AFTER_ANY_CALL, AFTER_CALL, OTHERWISE

UNKNOWN = "?"
"""Where a jump leads through a pointer."""

MOST_FUNCTIONS = 8
"""That may return in the place of an untraced target, as it jumps on."""

MOST_EXITS = 32
"""Of all of these."""

MOST_RELAYS = 4
"""At one exit: each costs its program's time whenever the function returns."""

LEVELS = 3
"""Calls at one frame that relays distinguish, where each has jumped to the next."""


class Leaving(Struct, frozen=True):
    """How a traced function is left whose calls begin at ``entry``, and what is fetched then: with
    a ``usual_result`` from where the calling convention has it."""

    function: Function
    values: CallValues
    exits: Exits
    entry: Site
    usual_result: bool


class _Group(Struct, frozen=True):
    """What calls have in common that a relay serves; ``level`` distinguishes those of which one
    jumps to another. Where calls are aggregated or compared, and return to places, they are of one
    ``function``. Those that return to ``places`` have relays of their own."""

    fetches: tuple[Fetch, ...]
    conditions: tuple[Condition, ...]
    keeps: str
    level: int
    places: bool = False
    function: int = -1


class _Ending(Struct, frozen=True):
    """Where calls return that have jumped to a function: by which exits of which functions. The
    numbers of those that are ``traced`` are among them."""

    returns: tuple[tuple[Function, Exit], ...]
    traced: frozenset[int]


class TailCalls:
    """The jumps between functions of one binary, ``leaving`` by the number of a traced one. With
    ``follows`` exits of functions that are not traced may be watched; none where it ``avoids``
    probes."""

    def __init__(
        self,
        image: Image,
        leaving: Sequence[Leaving],
        table: Symbols,
        stubs: Stubs,
        placer: Placer,
        *,
        follows: bool,
        avoids: Collection[int] = (),
        action: str = "",
    ) -> None:
        """``action`` is one that aggregates, as the kernel does it where a call returns."""
        self._image = image
        self._leaving = leaving
        self._table = table
        self._stubs = stubs
        self._placer = placer
        self._busy = BusyFunctions(image, placer.sites.machine)
        self._follows = follows
        self._avoids = avoids
        self._traced = {each.function.address: n for n, each in enumerate(leaving)}
        self._action = action
        self._conditional = bool(action) or any(each.values.is_conditional for each in leaving)
        self._endings: dict[int, _Ending | None] = {}
        self._levels: dict[int, int] = {}
        self._groups: dict[_Group, int] = {}
        self._relays: dict[int, dict[int, list[Probe]]] = {}
        self._places: dict[int, list[Site]] = {}

    def complete(self, probes: Sequence[Probe]) -> list[Probe]:
        """Return the ``probes`` of the traced functions, those on jumps with what is known of their
        targets, and relays."""
        if self._follows:
            exits = (exit for each in self._leaving for exit in each.exits.exits)
            targets = {exit.target for exit in exits if exit.kind == "tail" and exit.target}
            self._busy.look_at(targets - self._traced.keys())
            self._places = self._find_places()
        if self._conditional:
            self._find_levels()
        done = [d for p in probes for d in (self._completed(p) if p.role == "tail" else [p])]
        relays = [r for sites in self._relays.values() for group in sites.values() for r in group]
        # The last one that is attached is hit first: inner calls return before outer ones.
        levels = {number: group.level for group, number in self._groups.items()}
        return [*done, *sorted(relays, key=lambda relay: (levels[relay.relay], relay.relay))]

    def _completed(self, probe: Probe) -> list[Probe]:
        """A probe on a jump; and, where only some calls are seen to return, what it is for
        others."""
        exits = self._leaving[probe.function].exits.exits
        exit = next(each for each in exits if each.site.address == probe.site.address)
        target = exit.target
        known = replace(probe, leads_to=self._name(exit))
        caller = self._leaving[probe.function]
        fetches = caller.values.result_fetches
        if self._ends_alike(probe.function, target):
            return [replace(known, goes_on=True, fetches=fetches)]
        waiting = replace(known, goes_on=True, fetches=fetches if caller.usual_result else ())
        ending = self._ending(target)
        if ending and (relay := self._relay(probe.function, ending.returns)):
            return [replace(waiting, relay=relay)]
        others = replace(known, goes_on=self._is_seen(target))
        if (returning := self._at_jump(exit, known.leads_to, caller)) is not None:
            conditions = caller.values.result_conditions
            others = replace(probe, role="closes", fetches=returning, conditions=conditions)
        places = self._places.get(probe.function)
        if places and not others.goes_on and (relay := self._relay(probe.function, places=places)):
            return [replace(waiting, relay=relay), replace(others, source=OTHERWISE)]
        return [others]

    def _at_jump(self, exit: Exit, name: str, caller: Leaving) -> tuple[Fetch, ...] | None:
        """What fetches the result where a call jumps to a function of the C library that returns
        an argument; None where that is not known."""
        conditions = caller.values.result_conditions
        if self._action or not caller.usual_result or any(c.subject == "text" for c in conditions):
            return None
        if caller.function.address in self._stubs:  # all its time is that of the target
            return None
        target = exit.target
        imported = self._stubs.get(target) or self._stubs.behind(exit.slot)
        if not (imported or self._stubs.resolver(target, exit.slot)):
            return None
        from lbtrace.plan.argument_results import at_jump  # imported here: few calls jump there

        return at_jump(name, self._placer.sites.machine, caller.values.result_fetches)

    def _name(self, exit: Exit) -> str:
        target = exit.target
        if stub := self._stubs.get(target) or self._stubs.behind(exit.slot):
            return _shown(stub.name) or UNKNOWN
        if (traced := self._traced.get(target)) is not None:
            return self._leaving[traced].function.name
        if chosen := self._table.ifunc_names.get(self._stubs.resolver(target, exit.slot)):
            return chosen
        function = self._table.functions.holding(target) if target else None
        return _shown(function.name) if function else UNKNOWN

    def _is_seen(self, target: int) -> bool:
        """Whether the exits of traced functions tell when a call returns that has jumped to a
        target: all of them send events."""
        return bool(self._seen_in(target))

    def _seen_in(self, target: int) -> set[int]:
        """The traced functions whose exits tell that; none where there are others."""
        if self._conditional:
            return set()
        number = self._traced.get(target)
        if number is not None:
            hides = self._leaving[number].function.exits_hidden
            return set() if hides else self._reached(number)
        ending = self._ending(target)
        if ending is None or any(f.address not in self._traced for f, _ in ending.returns):
            return set()
        return set(ending.traced)

    def _ends_alike(self, number: int, target: int) -> bool:
        """Whether the exits of traced functions tell the result as well."""
        wanted = self._leaving[number].values.result_fetches
        seen_in = self._seen_in(target)
        return bool(seen_in) and all(
            self._leaving[n].values.result_fetches[: len(wanted)] == wanted for n in seen_in
        )

    def _reached(self, number: int) -> set[int]:
        """The traced functions that may end a call which has jumped to one."""
        return _closed(number, self._next)

    def _next(self, number: int) -> set[int]:
        found = {self._traced.get(e.target) for e in self._leaving[number].exits.exits}
        return {each for each in found if each is not None}

    def _relay(
        self,
        number: int,
        returns: Sequence[tuple[Function, Exit]] = (),
        places: Sequence[Site] = (),
    ) -> int:
        """The number of the relays that see a function's calls return which have jumped: at
        ``returns``, or at ``places`` in its callers; 0 where none do."""
        caller, level = self._leaving[number], self._levels.get(number, 0)
        values = caller.values
        if level >= LEVELS:
            return 0
        if (values.result_conditions or self._action) and not caller.usual_result:
            return 0
        fetches = values.result_fetches if caller.usual_result else ()
        function = number if self._action or (places and self._conditional) else -1
        conditions = values.result_conditions
        group = _Group(fetches, conditions, values.kept, level, bool(places), function)
        relay = self._groups.setdefault(group, len(self._groups) + 1)
        addresses = (*(exit.site.address for _, exit in returns), *(p.address for p in places))
        sites = [self._relays.setdefault(address, {}) for address in addresses]
        full = (relay not in at and len(at) >= MOST_RELAYS for at in sites)
        if any(each and address for each, address in zip(full, addresses, strict=True)):
            return 0
        found = [*(self._seen_at(*each, group) for each in returns)]
        found += [[(place, fetches)] for place in places]
        for at, seen, address in zip(sites, found, addresses, strict=True):
            source = (AFTER_CALL if address else AFTER_ANY_CALL) if places else "uprobe"
            if relay not in at:
                made = (self._probe(*each, group, relay) for each in seen)
                at[relay] = [replace(probe, source=source) for probe in made]
        return relay

    def _seen_at(
        self, function: Function, exit: Exit, group: _Group
    ) -> list[tuple[Site, tuple[Fetch, ...]]]:
        traced = self._traced.get(function.address)
        entry = Site(function.address, function.offset)
        if traced is not None:
            entry = self._leaving[traced].entry
        return [*return_sites(exit, group.fetches, function.address, entry)]

    def _probe(self, site: Site, fetches: tuple[Fetch, ...], group: _Group, number: int) -> Probe:
        relay = Probe(
            site,
            "tail return",
            fetches=fetches,
            conditions=group.conditions,
            keeps=group.keeps,
            relay=number,
        )
        if self._action:
            from lbtrace.plan.aggregation import aggregating  # imported here: most send

            grouping = self._leaving[group.function].values.grouping
            relay = aggregating(replace(relay, function=group.function), self._action, grouping)
        return relay

    def _find_places(self) -> dict[int, list[Site]]:
        """Where calls return, by their function's number, that may jump to what is not watched: in
        their callers, and in those of functions that jump to theirs. First a site at no address,
        of places that are found while the trace runs."""
        before: dict[int, set[int]] = {number: set() for number in range(len(self._leaving))}
        for number in before:
            for target in self._next(number):
                before[target].add(number)
        lost = {n: _closed(n, before.__getitem__) for n in before if self._is_lost(n)}
        functions = {n: self._leaving[n].function for n in sorted(set().union(*lost.values()))}
        sites = self._placer.sites
        found = find_return_places(self._image, self._stubs, sites, functions, self._avoids)
        anywhere = Site(0, 0, -sites.machine.return_address_size, emulated=True)
        return {
            n: [anywhere, *(s for each in sorted(ways) for s in found.get(each, ()))]
            for n, ways in lost.items()
        }

    def _is_lost(self, number: int) -> bool:
        """Whether calls of a function may jump to what is not watched."""
        exits = self._leaving[number].exits.exits
        targets = {exit.target for exit in exits if exit.kind == "tail"}
        return any(not self._is_seen(each) and self._ending(each) is None for each in targets)

    def _ending(self, target: int) -> _Ending | None:
        """Where calls return that have jumped to a target; None where that is not known."""
        if target not in self._endings:
            self._endings[target] = self._find_ending(target)
        return self._endings[target]

    def _find_ending(self, target: int) -> _Ending | None:
        ways, returns = [target], list[tuple[Function, Exit]]()
        found: dict[int, Exits] = {}
        while ways:
            address = ways.pop()
            if address in found:
                continue
            left = self._left(address)
            if left is None or len(found) == MOST_FUNCTIONS:
                return None
            function, found[address] = left
            if found[address].hidden or self._is_avoided(found[address]):
                return None
            for exit in found[address].exits:
                if exit.kind == "return":
                    returns.append((function, exit))
                else:
                    ways.append(exit.target)
        traced = self._traced.keys() & found.keys()
        returning = {function.address: function for function, _ in returns}
        if any(self._busy.has(f) for address, f in returning.items() if address not in traced):
            return None
        if len(returns) > MOST_EXITS:
            return None
        return _Ending(
            tuple(returns),
            frozenset(self._traced[each] for each in traced),
        )

    def _is_avoided(self, exits: Exits) -> bool:
        sites = (
            s.address for e in exits.exits for s in (e.site, *(each.site for each in e.entries))
        )
        return bool(self._avoids) and any(address in self._avoids for address in sites)

    def _left(self, address: int) -> tuple[Function, Exits] | None:
        """How the function at an address is left, if that is known."""
        number = self._traced.get(address)
        if number is not None:
            traced = self._leaving[number]
            watched = traced.function.returns.startswith("sites")
            exits = traced.exits if watched else self._placer.exits(traced.function)
            return None if traced.function.exits_hidden else (traced.function, exits)
        if not (address and self._follows):
            return None
        function = self._table.functions.holding(address)
        if function is None or function.address != address:
            function = self._placer.around.nameless(address)
        if function is None or not self._placer.is_sound(function):
            return None
        return function, self._placer.exits(function)

    def _find_levels(self) -> None:
        """Number those calls that wait for relays at one frame, each of which has jumped to the
        next: where conditions decide about each, it needs an event of its own."""
        found = {number: self._waits(number) for number in range(len(self._leaving))}
        waiting = {number: ways for number, ways in found.items() if ways is not None}
        for _ in range(LEVELS):
            for number, inner in waiting.items():
                level = self._levels.get(number, 0) + 1
                for each in inner & waiting.keys():
                    self._levels[each] = max(self._levels.get(each, 0), level)

    def _waits(self, number: int) -> frozenset[int] | None:
        """The traced functions in which a call may wait for a relay; None where it waits for
        none."""
        targets = {e.target for e in self._leaving[number].exits.exits if e.kind == "tail"}
        found = [
            ending.traced
            for target in targets
            if not self._ends_alike(number, target) and (ending := self._ending(target))
        ]
        if self._places.get(number):
            found.append(frozenset(self._reached(number) - {number}))
        return frozenset[int]().union(*found) if found else None


def _closed(first: int, next_of: Callable[[int], Set[int]]) -> set[int]:
    """``first``, and all to which that leads."""
    found, ways = {first}, [first]
    while ways:
        further = next_of(ways.pop()) - found
        found |= further
        ways += further
    return found


def _shown(name: str) -> str:
    """The name of a function as people write it."""
    plain = short(name)
    if "std::" not in plain:
        return plain
    from lbtrace.elf import cpp_names  # imported here because many programs are not C++

    return cpp_names.shorten(plain)
