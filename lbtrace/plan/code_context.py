"""What following a function's code needs of the binary around it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate

from lbtrace.elf import plt
from lbtrace.elf.data_sections import find_data
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import PT_LOAD, Image
from lbtrace.elf.memory import PF_W, Memory
from lbtrace.elf.plt import Stubs
from lbtrace.elf.restartable import find_sequences
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import PARTS, Body
from lbtrace.machine.restartable import LONGEST, Sequences
from lbtrace.model import Function
from lbtrace.plan.contradictions import LONGEST_INSTRUCTION, Contradictions
from lbtrace.plan.noreturn_functions import never_returns

PT_GNU_RELRO = 0x6474E552
"""What the loader write-protects after relocating it: LSB core specification."""

WORD_SIZE = 8
"""Bytes that a relocation changes, at most."""

NEAR = 512
"""Bytes before and after a function that are searched for jumps into it."""

BODIES = 16
"""At most this many functions have their code kept, because neighbours are needed together."""

DEPTH = 3
"""Functions, each called by the one before, that are examined to decide whether one returns."""


class CodeContext:
    """The code and data of an image: an `lbtrace.machine.function_code.Around`, and a
    `lbtrace.machine.sites.KnownFunctions`."""

    def __init__(
        self,
        image: Image,
        table: Symbols,
        machine: Machine,
        *,
        patched: Sequence[int] = (),
    ) -> None:
        self._image = image
        self._table = table
        self._finder = machine.exit_finder()
        self._unwind = Unwind(image)
        self._contradictions = Contradictions(table, self._unwind, self._finder, self)
        self._memory = Memory(image)
        self._patches = sorted({*image.once(Dynamic).patches, *patched})
        self._ends: dict[tuple[int, bool], bool] = {}
        self._returning: dict[int, bool] = {}
        self._depth = 0
        self._functions = table.functions
        self._split = table.cold
        self._bodies: dict[int, Body] = {}
        self._pads: dict[int, tuple[int, ...]] = {}
        self._constant = [
            range(s.address, s.address + s.size)
            for s in image.segments
            if (s.type == PT_LOAD and not s.flags & PF_W) or s.type == PT_GNU_RELRO
        ]

    def body(self, function: Function) -> Body:
        """Return the code of ``function``, with its cold parts."""
        found = self._bodies.get(function.address)
        if found is None:
            if len(self._bodies) >= BODIES:
                del self._bodies[next(iter(self._bodies))]
            found = self._bodies[function.address] = self._body(function)
        return found

    def _body(self, function: Function) -> Body:
        return Body(self.parts(function), self.pads(function))

    def parts(self, function: Function) -> tuple[Code, ...]:
        """Return the code of ``function`` by its symbols, its beginning first."""
        address = function.address
        code = self._image.code(address, function.size or self._room(address))
        first = Code(code, address, function.offset, address + len(code))
        return (first, *(self._code(c.address, c.size) for c in self._table.cold_parts(function)))

    def code(self, function: Function) -> Code:
        """Return the code of ``function`` where it begins, up to its end or the next symbol."""
        size = function.size or LONGEST_INSTRUCTION
        first = function.address
        limit = min(first + (function.size or 1), self._table.following(first))
        for sequence in self.sequences.starting(first - LONGEST, limit + LONGEST_INSTRUCTION):
            if sequence.stop > first:
                # The instruction before the sequence belongs to it, however long it is.
                limit = min(limit, max(first + 1, sequence.start - LONGEST_INSTRUCTION))
        body = self._bodies.get(first) if function.size else None
        code = body.parts[0].code if body else self._image.code(first, size)
        return Code(code, first, function.offset, limit)

    @cached_property
    def sequences(self) -> Sequences:
        """See `lbtrace.machine.sites.KnownFunctions.sequences`."""
        return self._image.once(find_sequences)

    def is_inside_another(self, function: Function) -> bool:
        """Return whether another function reaches over the first instruction of ``function``, and
        so may come there other than by a call."""
        before = self._functions.extent(function.address - 1)
        if before is not None and function.address < before.stop:
            return True
        described = self._unwind.range_of(function.address)
        return described is not None and described.start != function.address

    def begins_another(self, address: int) -> bool:
        """Return whether a function begins at ``address``, or a stub that leads to one: a jump
        there is a tail call, which does not come back."""
        if self._split.holding(address) is not None:
            return False
        function = self._functions.holding(address)
        return address in self._called or (function is not None and function.address == address)

    def jumps_into(self, function: Function, to: int) -> Iterator[int]:
        """Yield what looks like jumps from around ``function`` to beyond its first instruction, up
        to ``to``: functions of hand-written code share their ends."""
        start, end = function.address, function.address + function.size
        segments = self._image.executable_segments
        first = next(
            (s.address for s in segments if s.address <= start < s.address + s.size), start
        )
        for low, high in ((max(first, start - NEAR), start), (end, end + NEAR)):
            yield from self._finder.jumps(self._code(low, high - low), range(start + 1, to + 1))

    def pads(self, function: Function) -> tuple[int, ...]:
        """Return where ``function`` continues after exceptions."""
        found = self._pads.get(function.address)
        if found is None:
            found = self._pads[function.address] = tuple(self._find_pads(function))
        return found

    def _find_pads(self, function: Function) -> list[int]:
        go = self._table.go
        if go is not None and go.start <= function.address < go.end:
            return go.resumptions(function.address)
        parts = [function, *self._table.cold_parts(function)]
        pads = [pad for part in parts for pad in self._unwind.landing_pads(part.address)]
        return pads + [pad for part in parts for pad in self._handlers(part.address, part.size)]

    def holds_sequences(self, function: Function) -> bool:
        """Return whether restartable sequences are in ``function``."""
        return bool(self._handlers(function.address, function.size))

    def _handlers(self, address: int, size: int) -> list[int]:
        """Where code continues after the kernel interrupted restartable sequences in it."""
        if not self.sequences:
            return []
        end = address + (size or self._room(address))
        return [each.handler for each in self.sequences.starting(address, end)]

    def is_patched(self, function: Function) -> bool:
        """Return whether the loader, or the program, changes the code of ``function``."""
        return bool(self._patches) and any(map(self._is_patched, self.body(function).parts))

    def _is_patched(self, code: Code) -> bool:
        index = bisect_right(self._patches, code.address - WORD_SIZE)
        return any(at < code.address + len(code.code) for at in self._patches[index : index + 1])

    def holding(self, address: int) -> Body | None:
        """Return the code that a known start leads to and that may hold ``address``: that of the
        function with a symbol, else what unwind information describes; None without, and
        where it is changed in memory."""
        body = self._holding(address)
        return None if body and any(map(self._is_patched, body.parts)) else body

    def _holding(self, address: int) -> Body | None:
        function = self._functions.holding(address)
        if function is not None and self.is_amid(function.address):
            function = self._around_amid(function.address, address)
        if function is not None:
            return self.body(function)
        cold = self._split.holding(address)
        if cold is not None and not self.is_amid(cold.address):
            return self._split_body(cold)
        extent = self._unwind.range_of(address)
        return self.described(extent) if extent is not None else None

    def described(self, extent: range) -> Body:
        """Return the code that one frame description is for."""
        start = extent.start
        pads = (*self._unwind.landing_pads(start), *self._handlers(start, len(extent)))
        return Body((self._code(start, len(extent)),), pads)

    def nameless(self, address: int) -> Function | None:
        """Return the function that begins at ``address`` by its frame description, where no symbol
        is about that: a local one of a stripped file."""
        extent = self._unwind.range_of(address)
        if extent is None or extent.start != address or self._functions.extent(address):
            return None
        return Function("", address, len(extent), self._image.offset(address))

    def code_between(self, address: int, end: int) -> Code:
        """Return what lies from ``address`` to ``end``."""
        return self._code(address, end - address)

    def is_amid(self, address: int) -> bool:
        """Return whether ``address``, where a function or a part of one begins by its symbol, lies
        amid an instruction of another function: no probe can be there."""
        return self._contradictions.is_amid(address)

    def is_data(self, address: int) -> bool:
        """Return whether ``address`` lies in a section of data: nothing there is a function."""
        starts, ends = self._data
        return address < ends[bisect_right(starts, address)]

    @cached_property
    def _data(self) -> tuple[Sequence[int], Sequence[int]]:
        """Where sections of data begin, in order, and where they end, after a 0: no address before
        the first is in one."""
        found = sorted((each.start, each.stop) for each in self._image.once(find_data))
        ends = accumulate((end for _, end in found), max, initial=0)
        return [start for start, _ in found], [*ends]

    def _around_amid(self, start: int, address: int) -> Function | None:
        """The function around one that begins at ``start`` amid an instruction, if it reaches to
        ``address``."""
        found = (f for f in self._functions.covering(start) if not self.is_amid(f.address))
        return next((f for f in found if address < f.address + f.size), None)

    def _split_body(self, part: Function) -> Body:
        """The code of the function that ``part`` was split off, which comes to several places in
        it; that of the part alone where none is known. It begins with an instruction."""
        owners = self._table.owners(part)[:PARTS]
        if len(owners) > 1:
            owners = [owner for owner in owners if self._leads_to(part, owner)]
        if not owners:
            pads = self._unwind.landing_pads(part.address)
            return Body((self._code(part.address, part.size),), tuple(pads))
        body = self.body(owners[0])
        return Body(body.parts, (*body.pads, part.address))

    def _leads_to(self, part: Function, owner: Function) -> bool:
        """Whether something in ``owner`` looks like a jump to ``part``."""
        within = range(part.address, part.address + part.size)
        return any(True for _ in self._finder.jumps(self.body(owner).parts[0], within))

    def landing_pads(self, part: Code) -> Sequence[int]:
        """See `lbtrace.machine.function_code.Around.landing_pads`."""
        return self._unwind.landing_pads(part.address)

    def more(self, address: int) -> Code | None:
        """See `lbtrace.machine.function_code.Around.more`: a part that was split off, or a function
        without a name, which returns in the place of the one that jumped to it."""
        cold = self._split.holding(address)
        if cold is not None:
            return self._code(cold.address, cold.size)
        if self._functions.extent(address) is not None:
            return None
        described = self._unwind.range_of(address)
        if described is not None:
            return self._code(described.start, len(described))
        room = self._room(address)
        return self._code(address, room) if room else None

    def read(self, address: int, size: int) -> bytes:
        """See `lbtrace.machine.function_code.Around.read`."""
        for constant in self._constant:
            if address in constant:
                return self._memory.read(address, min(size, constant.stop - address))
        return b""

    def word(self, address: int) -> int | None:
        """See `lbtrace.machine.function_code.Around.word`."""
        return self._memory.word(address) if self._is_constant(address) else None

    @property
    def settled(self) -> bool:
        """See `lbtrace.machine.function_code.Around.settled`."""
        return not self._depth

    def ends(self, address: int, pointer: bool = False) -> bool:
        """See `lbtrace.machine.function_code.Around.ends`."""
        known = self._ends.get((address, pointer))
        if known is None:
            self._ends[address, pointer] = False  # for functions that call themselves
            known = self._ends[address, pointer] = self._never_returns(address, pointer)
        return known

    def _never_returns(self, address: int, pointer: bool) -> bool:
        stub = self._called.behind(address) if pointer else self._called.get(address)
        if stub is not None and not stub.address:
            return never_returns(stub.name)
        if stub is not None:
            address = stub.address
        elif pointer:
            return False
        extent = self._functions.extent(address)
        go = self._table.go
        resumes = go is not None and go.start <= address < go.end
        begins = extent is not None and extent.start == address
        if not begins or (not resumes and self._returns(address, extent=extent)):
            return False
        function = self._functions.holding(address)
        assert function is not None
        named = any(map(never_returns, (function.name, *function.aliases)))
        if self._depth >= DEPTH or resumes:
            return named  # Go has only code after calls, at which recovering continues
        self._depth += 1
        try:
            body = self.body(function)
            if named:  # a program may have an `err` of its own
                found = self._finder.exits(body.parts, self, body.pads).exits
                return all(exit.kind != "return" for exit in found)
            return self._finder.never_returns(body, self)
        finally:
            self._depth -= 1

    def _returns(self, address: int, depth: int = 0, extent: range | None = None) -> bool:
        """Whether a function surely returns: most do, by their own code and that of some others,
        so that all that they call need not be known. Its ``extent`` need not be."""
        known = self._returning.get(address)
        if known is None:
            self._returning[address] = False  # for functions that call themselves
            known = self._returning[address] = self._surely_returns(address, depth, extent)
        return known

    def _surely_returns(self, address: int, depth: int, extent: range | None) -> bool:
        if extent is None:
            stub = self._called.get(address)
            if stub is not None and not stub.address:
                return not never_returns(stub.name)
            extent = self._functions.extent(stub.address if stub else address)
        if extent is None or depth > DEPTH:
            return False
        view = self._image.view(extent.start, len(extent))
        further = partial(self._returns, depth=depth + 1)
        return self._finder.surely_returns(view, extent.start, further)

    @cached_property
    def _called(self) -> Stubs:
        return self._image.once(plt.stubs)

    def _is_constant(self, address: int) -> bool:
        return any(address in constant for constant in self._constant)

    def _code(self, address: int, size: int) -> Code:
        code = self._image.code(address, size)
        return Code(code, address, self._image.offset(address), address + len(code))

    def _room(self, address: int) -> int:
        """Bytes from ``address`` to the next symbol or the end of the section, 0 in a PLT."""
        for section in self._image.sections:
            if section.flags & SHF_EXECINSTR and (
                section.address <= address < section.address + section.size
            ):
                if section.name.startswith(".plt"):
                    return 0
                end = min(self._table.following(address), section.address + section.size)
                return end - address
        return 0
