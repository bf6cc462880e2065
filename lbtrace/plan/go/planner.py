"""Planning of Go functions: calling convention, probe sites, goroutine lookup."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.abi.go import HIDDEN, GoConvention, argument_space, certain, find_go_convention
from lbtrace.abi.locations import ErrorPlaces
from lbtrace.elf import debugfile, plt
from lbtrace.elf.go.arguments import Arguments, Group
from lbtrace.elf.go.pclntab import GoTable
from lbtrace.elf.image import PT_TLS, Image
from lbtrace.errors import UsageError
from lbtrace.fetch import go_call_values
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Code, Exits
from lbtrace.model import Function, GoLayout, Prototype, Site, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.plan.go import argument_views, error_types, goroutine_numbers, undeclared
from lbtrace.plan.go.error_types import HeldTypes, is_dynamic
from lbtrace.plan.mismatches import Mismatches
from lbtrace.plan.value_selection import ValueSelection
from lbtrace.values.interface import ERROR

if TYPE_CHECKING:
    from lbtrace.elf.go.runtime_types import TypeTable

WORD = 8

LIBRARY_START = "_linux_lib"
"""How the name of what starts a library for C ends: ``_rt0_amd64_linux_lib``."""

MORESTACK = "runtime.morestack"
"""How the names of functions begin that make stacks larger."""

ABI0 = ".abi0"
"""What the linker adds to the names of functions that take all from the stack."""

DECLARES_ALL = (1, 24)
"""A version that gives parameters without a name one for debug information
(``declareParams`` in cmd/compile/internal/ir/func.go)."""

TYPED_LIMIT = 5_000
"""Functions whose types are read: some seconds of work."""


class GoFunctionValues(NamedTuple):
    """How a function's values are passed, and whether debug information says so."""

    call_values: CallValues
    typed: bool


class GoPlan:
    """Plans for the functions of Go in one image."""

    def __init__(self, image: Image, table: GoTable) -> None:
        self._image = image
        self._table = table
        version = table.version
        self.version = version
        self._dynamic = self._has_errors = self._panics = False
        morestack = [table.starts[row] for row in table.names.beginning(MORESTACK)]
        imported = image.section(".dynstr")
        if imported is not None and MORESTACK.encode() in image.content(imported):
            # Code linked with -linkshared calls it, as all of the library, through stubs.
            stubs = image.once(plt.stubs).items()
            morestack += [at for at, stub in stubs if stub.name.startswith(MORESTACK)]
        self._planner = Machine(image.machine).go_site_planner(morestack)
        # An unknown version is that of a development build.
        self._registers = version >= self._planner.REGISTERS_SINCE or version == (0, 0)

    def holds(self, function: Function) -> bool:
        """Return whether ``function`` is one of Go, not of C linked to it."""
        return bool(self._table.start <= function.address < self._table.end)

    def finds_goroutine(self, address: int) -> bool:
        """Return whether the running goroutine is found at an address: not in C, nor in assembly,
        which may use the register of g for itself."""
        if not (self.finds_goroutines and self._table.start <= address < self._table.end):
            return False
        start = self._table.starts[bisect_right(self._table.starts, address) - 1]
        return start not in self._table.assembly

    def show(self, values: Iterable[Value]) -> None:
        """Let `layout` have the names of types, if one of ``values`` is shown by its type's."""
        self._dynamic |= any(map(is_dynamic, values))

    @property
    def register(self) -> str:
        """The register that has the running goroutine, if one has."""
        return self._planner.G if self._registers or self._planner.KEEPS_G else ""

    @cached_property
    def finds_goroutines(self) -> bool:
        """Whether the running goroutine is found. Libraries for C of old versions keep it
        where the loader finds room in each thread."""
        return bool(self.register) or not any(n.endswith(LIBRARY_START) for n in self._table.names)

    @property
    def layout(self) -> GoLayout:
        """How the running goroutine is found, and the types' names if `describe` needs them."""
        where: Literal["register", "thread"] = "register" if self.register else "thread"
        goid = goroutine_numbers.find_offset(self._image, self.version)
        if not self._dynamic:
            return GoLayout(where, goid)
        types, held = self._types.names(), self._held.errors if self._has_errors else {}
        thrown = self._held.own if self._panics else {}
        return GoLayout(
            where,
            goid,
            types=(tuple(types), tuple(name for name, _ in types.values())),
            kinds=tuple(kind for _, kind in types.values()),
            held=(tuple(held), tuple(held.values())),
            thrown=(tuple(thrown), tuple(thrown.values())),
        )

    @cached_property
    def _types(self) -> TypeTable:
        from lbtrace.elf.go.runtime_types import (
            TypeTable,
        )  # imported here because it is seldom needed

        return TypeTable(self._image, self._table, self.version)

    @cached_property
    def _held(self) -> HeldTypes:
        return HeldTypes(self._types)

    @cached_property
    def panic_places(self) -> ErrorPlaces:
        """What is fetched of the values of panics, all of which `layout` has then."""
        self._dynamic = self._has_errors = self._panics = True
        return error_types.panic_places(self._held.errors.values(), self._held.own.values())

    def notes(self) -> Iterator[str]:
        """Yield warnings to the user."""
        yield from goroutine_numbers.notes(self._image, self.version)

    def describe(
        self, functions: Sequence[Function], selection: ValueSelection, mismatches: Mismatches
    ) -> dict[int, GoFunctionValues]:
        """Return the values of those of ``functions`` that are Go's, by address, but of
        ``mismatches``, which an expression of ``selection`` does not fit.
        """
        functions = [f for f in functions if self.holds(f)]
        found: dict[int, Prototype] = {}
        debug = debugfile.find(self._image) if functions else None
        if debug is not None:
            from lbtrace.dwarf import go_prototypes  # imported here because it imports pyelftools

            chosen = functions[:TYPED_LIMIT]
            found = go_prototypes.prototypes(self._image, chosen, self.is_whole, debug)
        if any(f.type.name == ERROR for p in found.values() for f in (*p.parameters, *p.results)):
            self._has_errors = True
            places = error_types.usual_places(self._held.errors.values())
            selection = replace(selection, detail=replace(selection.detail, places=places))
        described: dict[int, GoFunctionValues] = {}
        planned: dict[tuple[Prototype, bool, int | None], CallValues] = {}
        for function in functions:
            declared = found.get(function.address)
            if function.address in self._table.assembly:
                declared = None  # of assembly debug information has the name only
            try:
                call_values = self._call_values(function, declared, selection, planned)
            except UsageError as error:
                mismatches.add(function.name, error, declared=declared is not None)
                continue
            described[function.address] = GoFunctionValues(call_values, declared is not None)
            self.show(call_values.parameters)
            self.show([call_values.result] if call_values.result else [])
        return described

    def _call_values(
        self,
        function: Function,
        prototype: Prototype | None,
        selection: ValueSelection,
        planned: dict[tuple[Prototype, bool, int | None], CallValues],
    ) -> CallValues:
        """How the values of a function are passed, which debug information declares by
        ``prototype``. ``planned`` are those of functions without types, of which many are the
        same. Raises `UsageError`."""
        convention, shown = self.convention(function), selection.args
        declared = prototype is not None
        if prototype is not None:
            prototype = self.checked(prototype, function, convention)
            kept = self._planner.kept(self._code(function)) if convention.integers else None
            if kept is not None:
                prototype = undeclared.lasting(prototype, kept, convention)
        else:
            prototype = self.undeclared_prototype(function, convention, selection.args)
            asked = selection.request is not None and convention.integers
            if prototype is not None and asked and not prototype.results:
                prototype = replace(prototype, results=(undeclared.word(""),))
            if prototype is None and selection.args is None and selection.request is None:
                prototype = undeclared.unknown(())
        if prototype is None:
            prototype, shown = self._assumed(function, selection, convention)
        if declared or selection.request is not None:
            return self._plan_values(prototype, convention, selection, shown)
        alike = prototype, bool(convention.integers), shown
        if alike not in planned:
            planned[alike] = self._plan_values(prototype, convention, selection, shown)
        return planned[alike]

    def _plan_values(
        self,
        prototype: Prototype,
        convention: GoConvention,
        selection: ValueSelection,
        shown: int | None,
    ) -> CallValues:
        if selection.request is None:
            return go_call_values.plan_values(
                prototype, convention, FETCHES, selection.detail, shown=shown
            )
        from lbtrace.expressions import compile
        from lbtrace.expressions.operands import Names
        from lbtrace.fetch.go_fetcher import GoFetcher

        places = convention.places(prototype)
        declared = [n for n, f in enumerate(prototype.parameters) if f.name not in HIDDEN]
        registers = Machine(self._image.machine).registers
        bound = compile.bind(
            selection.request,
            Prototype(tuple(prototype.parameters[n] for n in declared), places.returned),
            Locations(tuple(places.parameters[n] for n in declared), places.result),
            range(len(declared) if shown is None else min(shown, len(declared))),
            Names(registers, goroutine=self.finds_goroutines, globals=selection.globals),
            compile.Bounds(FETCHES, selection.detail),
            GoFetcher,
        )
        return replace(bound, result=go_call_values.as_declared(bound.result, prototype))

    def entry(self, function: Function, call_values: CallValues) -> Site | None:
        """Return the site of the probe of ``function``; None where it would not fire once per
        call."""
        return self._planner.entry(self._code(function), call_values.registers)

    def hides_exits(self, function: Function) -> bool:
        """Return whether the exits of ``function`` could not be assigned to goroutines: assembly
        may use the register of g for itself."""
        assembly = function.address in self._table.assembly and not self.asks_thread(function)
        return assembly and self._planner.changes_g(self._code(function))

    def keeping_g(self, function: Function, exits: Exits) -> Exits:
        """Return ``exits`` of ``function`` with those seen at the instruction that returns which
        are preceded by one that finds the goroutine: until then the register of g may hold what
        assembly has left there, and the return would be taken for one of a thread."""
        if not self._registers or self.asks_thread(function):
            return exits
        late = [any(map(self._planner.finds_g_after, each.entries)) for each in exits.exits]
        pairs = zip(exits.exits, late, strict=True)
        kept = (replace(each, entries=()) if finds else each for each, finds in pairs)
        return replace(exits, exits=tuple(kept)) if any(late) else exits

    def asks_thread(self, function: Function) -> bool:
        """Return whether the thread is asked for the goroutine that calls ``function``: assembly,
        which may use the register of g for itself, or is called where that holds something else."""
        return function.address in self._table.assembly and self._threads_have_g

    @cached_property
    def _threads_have_g(self) -> bool:
        """Whether a word of each thread is known to have g besides the register: the only word of
        a program's own thread-local storage, which ends at the thread pointer (ELF Handling For
        Thread-Local Storage, variant II). Libraries have theirs where the loader finds room, and
        variables of C may follow g."""
        if self._planner.KEEPS_G or not self._registers:
            return False
        storage = [s.memory for s in self._image.segments if s.type == PT_TLS]
        return self._image.is_program and storage in ([], [WORD])

    def named(self, name: str) -> Function | None:
        """Return the function with this name, if there is one."""
        return next((f for f in self._table.functions.named(name) if f.name == name), None)

    def convention(self, function: Function) -> GoConvention:
        """Return how values travel to and from ``function``."""
        registers = self._registers and not self._is_abi0(function)
        return find_go_convention(self._image.machine, registers=registers)

    def _is_abi0(self, function: Function) -> bool:
        """Whether ``function`` takes all from the stack though others have registers:
        assembly, and what cgo writes to call C (``//go:cgo_unsafe_args``)."""
        if function.address in self._table.assembly:
            # Go's table has the arguments of assembly if they are on the stack.
            return self._table_arguments(function) is not None
        named = f"{function.name}{ABI0}" in function.aliases
        return named or self._planner.finds_g(self._code(function))

    def is_whole(self, function: Function, prototype: Prototype) -> bool:
        """Return whether ``function`` has no parameters but those of ``prototype``, which debug
        information declares, by Go's own tables. Old compilers leave out those without a name."""
        space = argument_space(prototype, self.convention(function))
        if space.size != self._table.argument_bytes(function.address):
            return False
        if self.version >= DECLARES_ALL or not space.padding:
            return True
        # One that is left out could be where the others are padded.
        arguments = self._table_arguments(function)
        named = sum(formal.name not in HIDDEN for formal in prototype.parameters)
        return arguments is not None and not arguments.more and len(arguments.parts) == named

    def checked(
        self, prototype: Prototype, function: Function, convention: GoConvention
    ) -> Prototype:
        """Return ``prototype`` without the values whose places are uncertain: where parameters are
        missing, those after them are elsewhere, unless debug information has their location."""
        size = self._table.argument_bytes(function.address)
        if size < 0:
            return prototype
        if self.is_whole(function, prototype):
            return replace(prototype, located=())
        missing = size - argument_space(prototype, convention).size
        known = [False] * len(prototype.parameters)
        if not missing:
            known = certain(prototype, convention)
            if all(known):
                return replace(prototype, located=())
        left_out = None if convention.integers or missing < 0 else missing
        return undeclared.incomplete(prototype, known, left_out, convention)

    def undeclared_prototype(
        self, function: Function, convention: GoConvention, wanted: int | None
    ) -> Prototype | None:
        """Return what Go's tables and the code show; None if values are not passed so.

        If the user wants ``wanted`` arguments, those uncertain are taken for integers.
        """
        arguments = self._table_arguments(function)
        size = self._table.argument_bytes(function.address)
        inferred = self._planner.infer_registers(self._code(function), convention.integers)
        on_stack = arguments is not None and not convention.integers
        if on_stack or function.address in self._table.assembly:
            return undeclared.abi0(arguments, size, inferred, convention)
        if arguments is None:
            return None
        registers = inferred.registers or None  # none is saved where none is used
        words = argument_views.words(arguments)
        if registers is None and inferred.read_first == len(words) and not arguments.more:
            registers = {w.offset: r for w, r in zip(words, convention.integers, strict=False)}
        if registers is None and wanted is not None:
            return None
        found = undeclared.prototype(arguments, registers, inferred.results, convention)
        leaves = undeclared.has_gap(arguments, function.name, size)
        return undeclared.leaves_more(found) if leaves else found

    def _table_arguments(self, function: Function) -> Group | None:
        size = self._table.argument_bytes(function.address)
        arguments = self._arguments.of(function.address)
        if arguments is None:
            return Group() if size == 0 else None
        # Before 1.20 the dictionary came first in methods, too.
        dictionary = int(self.version >= (1, 20) or self.version == (0, 0))
        if function.address in self._table.wrappers:
            dictionary = -1
        return undeclared.whole(arguments, function.name, size, dictionary)

    @cached_property
    def _arguments(self) -> Arguments:
        return Arguments(self._image, self._table, self.version)

    def _assumed(
        self, function: Function, selection: ValueSelection, convention: GoConvention
    ) -> tuple[Prototype, int]:
        """Integers, and how many of them to show.

        A result is assumed only if the user names it, on the stack in the last word.
        """
        count = 1 if selection.args is None else selection.args
        words = max(0, self._table.argument_bytes(function.address) // WORD)
        passed = count if convention.integers else max(count, words - 1)
        results = [undeclared.word("")] * (selection.request is not None)
        if results and not convention.integers and passed >= words:
            results = []
        return Prototype(
            tuple(undeclared.word(f"arg{n}") for n in range(passed)), None, tuple(results)
        ), count

    def _code(self, function: Function) -> Code:
        return Code(
            self._image.code(function.address, function.size),
            function.address,
            function.offset,
            function.address + function.size,
        )
