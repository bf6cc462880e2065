"""The part of a plan that is particular to Go: conventions, places, goroutines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.arch import Code, Exits, Passing, Places, go_abi
from lbtrace.elf import plt
from lbtrace.elf.go_arguments import Arguments, Group
from lbtrace.elf.gopclntab import GoTable
from lbtrace.elf.image import Image
from lbtrace.model import Function, GoLayout, Interface, Probe, Prototype, Site, Value
from lbtrace.plan import go_untold
from lbtrace.plan.showing import VALUES, Showing

REGISTERS_SINCE = (1, 17)
"""The version from which on amd64 has the register convention (arm64: 1.18)."""

FIRST_KNOWN, LAST_KNOWN = (1, 9), (1, 27)

GOID = 152
GOID_BY_VERSION = {(1, 23): 160, (1, 24): 160}
"""Offset of ``runtime.g.goid`` on 64-bit machines, from the DWARF of each of the known
versions; of others it is read there. ``g.stack.hi`` has always been the second word."""

WORD = 8

LIBRARY_START = "_linux_lib"
"""How the name of what starts a library for C ends: ``_rt0_amd64_linux_lib``."""

MORESTACK = "runtime.morestack"
"""How the names of functions begin that make stacks larger."""

ABI0 = ".abi0"
"""What the linker adds to the names of functions that take all from the stack."""

TYPED_LIMIT = 5_000
"""Functions whose types are read: some seconds of work."""


class Described(NamedTuple):
    """How a function's values travel, and whether debug information told."""

    passing: Passing
    typed: bool


class GoPlan:
    """Plans for the functions of Go in one image."""

    def __init__(self, image: Image, table: GoTable) -> None:
        self._image = image
        self._table = table
        version = table.version
        since = (1, 18) if image.machine == "aarch64" else REGISTERS_SINCE
        # An unknown version is that of a development build.
        self._registers: bool = version >= since or version == (0, 0)
        self._version = version
        self._dynamic = False
        morestack = [
            at
            for at, name in zip(table.starts, table.names, strict=True)
            if name.startswith(MORESTACK)
        ]
        imported = image.section(".dynstr")
        if imported is not None and MORESTACK.encode() in image.content(imported):
            # Code linked with -linkshared calls it, as all of the library, through stubs.
            stubs = plt.stubs(image).items()
            morestack += [at for at, stub in stubs if stub.name.startswith(MORESTACK)]
        if image.machine == "aarch64":
            from lbtrace.arch import go_arm64

            self._planner: go_arm64.GoPlanner | go_amd64.GoPlanner = go_arm64.GoPlanner(morestack)
        else:
            from lbtrace.arch import go_amd64  # late: imports iced-x86

            self._planner = go_amd64.GoPlanner(morestack)

    def holds(self, function: Function) -> bool:
        """Whether ``function`` is one of Go, not of C linked to it."""
        return bool(self._table.start <= function.address < self._table.end)

    @property
    def tells_goroutines(self) -> bool:
        """Whether the running goroutine is found. Libraries for C of old versions keep it
        where the loader finds room in each thread."""
        by_register = self._registers or self._image.machine == "aarch64"
        return by_register or not any(n.endswith(LIBRARY_START) for n in self._table.names)

    @property
    def layout(self) -> GoLayout:
        """How the running goroutine is found, and the types' names if `describe` needs them."""
        by_register = self._registers or self._image.machine == "aarch64"
        types: dict[int, str] = {}
        if self._dynamic:
            from lbtrace.elf import go_type_names  # late: seldom needed

            types = go_type_names.names(self._image, self._table, self._version)
        names = (tuple(types), tuple(types.values()))
        return GoLayout("register" if by_register else "thread", self._goid, types=names)

    @cached_property
    def _goid(self) -> int:
        if not FIRST_KNOWN <= self._version <= LAST_KNOWN and self._image.has_debug_info:
            from lbtrace.elf import go_dwarf  # late: imports pyelftools

            told = go_dwarf.member_offset(self._image, "runtime.g", "goid")
            if told is not None:
                return told
        return GOID_BY_VERSION.get(self._version, GOID)

    def notes(self) -> Iterator[str]:
        """Remarks to the user."""
        if self._version > LAST_KNOWN and not self._image.has_debug_info:
            yield (
                f"Go {'.'.join(map(str, self._version))} is newer than this lbtrace: if calls"
                " of different goroutines are mixed up, update it"
            )

    def describe(self, functions: Sequence[Function], wish: Showing) -> dict[int, Described]:
        """The values of those of ``functions`` that are Go's, by address.

        Raises `UsageError` where an expression of ``wish`` does not fit one.
        """
        functions = [f for f in functions if self.holds(f)]
        found: dict[int, Prototype] = {}
        if self._image.has_debug_info:
            from lbtrace.elf import go_dwarf  # late: imports pyelftools

            found = go_dwarf.prototypes(self._image, functions[:TYPED_LIMIT], self.is_whole)
        described: dict[int, Described] = {}
        for function in functions:
            convention = self.convention(function)
            prototype, shown = found.get(function.address), wish.args
            if function.address in self._table.assembly:
                prototype = None  # of assembly debug information has the name only
            declared = prototype is not None
            if prototype is not None:
                prototype = self.checked(prototype, function, convention)
            else:
                prototype = self.told(function, convention, wish.args)
                asked = wish.request is not None and convention.integers
                if prototype is not None and asked and not prototype.results:
                    prototype = replace(prototype, results=(go_untold.word(""),))
                if prototype is None and wish.args is None and wish.request is None:
                    prototype = go_untold.unknown(())
            if prototype is None:
                prototype, shown = self._assumed(function, wish, convention)
            passing = self._passing(prototype, convention, wish, shown)
            described[function.address] = Described(passing, declared)
            values = (*passing.parameters, *([passing.result] if passing.result else []))
            self._dynamic |= any(_is_dynamic(value) for value in values)
        return described

    def _passing(
        self,
        prototype: Prototype,
        convention: go_abi.Convention,
        wish: Showing,
        shown: int | None,
    ) -> Passing:
        if wish.request is None:
            return go_abi.passing(prototype, convention, VALUES, wish.detail, shown=shown)
        from lbtrace import arch  # late: most traces need none
        from lbtrace.arch.go_fetching import GoFetcher
        from lbtrace.expressions import binding

        parameters, result, place = go_abi.places(prototype, convention)
        told = [n for n, f in enumerate(prototype.parameters) if f.name not in go_abi.HIDDEN]
        return binding.bind(
            wish.request,
            Prototype(tuple(prototype.parameters[n] for n in told), result),
            Places(tuple(parameters[n] for n in told), place),
            len(told) if shown is None else min(shown, len(told)),
            arch.of(self._image.machine).REGISTERS,
            binding.Bounds(VALUES, wish.detail),
            GoFetcher,
        )

    def entry(self, function: Function, passing: Passing) -> Site | None:
        """Where the probe of ``function`` stands; None where it would not fire once a call."""
        return self._planner.entry(self._code(function), passing.registers)

    def exits(self, function: Function) -> Exits:
        """Where ``function`` is left.

        Assembly may use the register of g for itself: its exits could not be
        told apart by goroutine.
        """
        code = self._code(function)
        if self._image.machine == "x86_64" and function.address in self._table.assembly:
            from lbtrace.arch.go_amd64 import writes

            if writes(code, "r14"):
                return Exits((), ("assembly that uses the register of g",))
        return self._planner.exits(code)

    def ends(self) -> Iterator[Probe]:
        """The probe that tells when a goroutine ends. The function it names means nothing."""
        for function in self._table.functions:
            if function.name == "runtime.goexit1":
                site = self._planner.entry(self._code(function), ())
                if site is not None:
                    reason = "tells when goroutines end"
                    yield Probe(0, "goroutine end", replace(site, reason=reason))

    def convention(self, function: Function) -> go_abi.Convention:
        """How values travel to and from ``function``."""
        if self._registers and not self._is_abi0(function):
            return go_abi.CONVENTIONS[self._image.machine]
        return go_abi.stack_only(self._image.machine)

    def _is_abi0(self, function: Function) -> bool:
        """Whether ``function`` takes all from the stack though others have registers:
        assembly, and what cgo writes to call C (``//go:cgo_unsafe_args``)."""
        if function.address in self._table.assembly:
            # Go's table tells the arguments of assembly if they are on the stack.
            return self._told_arguments(function) is not None
        named = f"{function.name}{ABI0}" in function.aliases
        return named or self._planner.finds_g(self._code(function))

    def is_whole(self, function: Function, parameters: int) -> bool:
        """Whether ``function`` has as many parameters as debug information declares, by
        Go's own table. Old compilers leave out those without a name."""
        arguments = self._told_arguments(function)
        if arguments is None:
            return False
        told = len(arguments.parts)
        return parameters == told or (arguments.more and parameters > told)

    def checked(
        self, prototype: Prototype, function: Function, convention: go_abi.Convention
    ) -> Prototype:
        """``prototype`` without the values whose places are in doubt: where parameters are
        missing, those behind them are elsewhere, unless debug information tells."""
        if convention.integers:
            named = sum(f.name not in go_abi.HIDDEN for f in prototype.parameters)
            if self._told_arguments(function) is None or self.is_whole(function, named):
                return prototype
            return go_untold.incomplete(prototype, 0, convention)
        size = self._table.argument_bytes(function.address)
        missing = size - go_abi.stack_bytes(prototype, convention)
        if size >= 0 and missing:
            return go_untold.incomplete(prototype, missing, convention)
        return replace(prototype, located=()) if size >= 0 else prototype

    def told(
        self, function: Function, convention: go_abi.Convention, wanted: int | None
    ) -> Prototype | None:
        """What Go's tables and the code tell; None if that is not how values travel.

        Where ``wanted`` arguments are asked for, those in doubt are taken for integers.
        """
        arguments = self._told_arguments(function)
        told = self._planner.told(self._code(function), convention.integers)
        on_stack = arguments is not None and not convention.integers
        if on_stack or function.address in self._table.assembly:
            size = self._table.argument_bytes(function.address)
            return go_untold.abi0(arguments, size, told, convention)
        if arguments is None:
            size = self._table.argument_bytes(function.address)
            stack = (
                None
                if convention.integers or size < 0
                else (self._planner.on_stack(self._code(function), size // WORD))
            )
            return go_untold.stacked(stack, wanted is not None) if stack is not None else None
        registers = told.registers or None  # none is saved where none is used
        words = go_untold.words(arguments)
        if registers is None and told.read_first == len(words) and not arguments.more:
            registers = {w.offset: r for w, r in zip(words, convention.integers, strict=False)}
        if registers is None and wanted is not None:
            return None
        return go_untold.prototype(arguments, registers, told.results, convention)

    def _told_arguments(self, function: Function) -> Group | None:
        size = self._table.argument_bytes(function.address)
        arguments = self._arguments.of(function.address)
        if arguments is None:
            return Group() if size == 0 else None
        # Before 1.20 the dictionary came first in methods, too.
        dictionary = int(self._version >= (1, 20) or self._version == (0, 0))
        if function.address in self._table.wrappers:
            dictionary = -1
        return go_untold.whole(arguments, function.name, size, dictionary)

    @cached_property
    def _arguments(self) -> Arguments:
        return Arguments(self._image, self._table, self._version)

    def _assumed(
        self, function: Function, wish: Showing, convention: go_abi.Convention
    ) -> tuple[Prototype, int]:
        """Integers, and how many of them to show.

        A result is assumed for who asks for it only, on the stack in the last word.
        """
        count = 1 if wish.args is None else wish.args
        words = max(0, self._table.argument_bytes(function.address) // WORD)
        passed = count if convention.integers else max(count, words - 1)
        results = [go_untold.word("")] * (wish.request is not None)
        if results and not convention.integers and passed >= words:
            results = []
        return Prototype(
            tuple(go_untold.word(f"arg{n}") for n in range(passed)), None, tuple(results)
        ), count

    def _code(self, function: Function) -> Code:
        return Code(
            self._image.code(function.address, function.size),
            function.address,
            function.offset,
            function.address + function.size,
        )


def _is_dynamic(value: Value) -> bool:
    """Whether an interface is shown, in whole or in part."""
    return isinstance(value.type, Interface) or any(map(_is_dynamic, value.members))
