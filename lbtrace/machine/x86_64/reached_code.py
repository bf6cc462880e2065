"""What is known of the code of an x86-64 function while it is followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from iced_x86 import Decoder, Instruction, Mnemonic
from msgspec import Struct

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Code, ExitKind
from lbtrace.machine.function_code import Around
from lbtrace.machine.x86_64.native_code import TOO_MUCH, NativeCode, UnfitError
from lbtrace.machine.x86_64.stack_depth import Stack


class WorkItem(Struct, frozen=True):
    """An instruction to continue from, and what leads there: a jump, or where computed jumps meet
    (0: none)."""

    address: int
    stack: Stack
    source: int = 0


class Out(NamedTuple):
    """How the function is left by an instruction; the stack pointer is ``sinks`` bytes
    below its value at entry there. A ``computed`` jump may also stay."""

    kind: ExitKind
    sinks: int = 0
    computed: bool = False


class _Instructions(dict[int, Instruction]):
    """Each is decoded when it is needed."""

    def __init__(self, decode: Callable[[int], Instruction]) -> None:
        super().__init__()
        self._decode = decode

    def __missing__(self, ip: int) -> Instruction:
        found = self[ip] = self._decode(ip)
        return found


class ReachedCode(NativeCode):
    """The code of a function as far as it is known.

    ``instructions`` has those reached, by their addresses. Computed jumps
    to the same places meet at one with a negative number, so that they need not be followed one by
    one: ``meetings``. ``outs`` are the exits, ``hidden`` describes exits that no probe can watch.
    ``loops_to_entry`` says that a jump leads to the first instruction, ``landed`` are the landing
    pads that were followed. It ``loses_stack`` if the stack pointer moves by what is known only at
    run time (``alloca``): what is known of it on one of several ways is wrong on others then.
    """

    def __init__(self, parts: Sequence[Code], around: Around, native: Any) -> None:
        super().__init__(parts, around, native)
        self.instructions = _Instructions(self._decode_at)
        self.meetings: dict[int, list[int]] = {}
        self.outs: dict[int, Out] = {}
        self.hidden: dict[int, str] = {}
        self.loops_to_entry = False
        self.landed: set[int] = set()
        self.gave_up = False
        self.loses_stack = False
        self._decoded: Code | None = None
        self._decoder: Any = None
        self._taken: list[int] = []
        self._looked_at = 0
        self._first = ffi.new("const uint64_t **")

    def _decode_at(self, ip: int) -> Instruction:
        part = self.part(ip)
        assert part is not None
        if self._decoded is not part:
            self._decoded, self._decoder = part, Decoder(64, part.code, ip=part.address)
        self._decoder.position = ip - part.address
        self._decoder.ip = ip
        decoded: Instruction = self._decoder.decode()
        return decoded

    def taken(self) -> list[int]:
        """Return the addresses of the instructions, in the order in which they were reached."""
        count = lib.lbt_flow_taken(self.native, self._first)
        return ffi.unpack(self._first[0], count) if count else []

    def meet(self, meeting: int, ip: int) -> None:
        """Note that the computed jump at ``ip`` leads to where others meet."""
        if not lib.lbt_flow_meet(self.native, meeting, ip):
            raise UnfitError(TOO_MUCH)
        self.meetings.setdefault(meeting, []).append(ip)

    def leading(self, ip: int) -> Iterator[tuple[int, bool]]:
        """Yield what leads to the instruction at ``ip``, and whether by a jump."""
        count = lib.lbt_flow_sources(self.native, ip, ffi.NULL, 0)
        into = ffi.new("int64_t[]", count)
        lib.lbt_flow_sources(self.native, ip, into, count)
        for source in reversed(ffi.unpack(into, count) if count else ()):
            yield from ((each, True) for each in self.meetings.get(source, [source]))
        last = lib.lbt_flow_before(self.native, ip)
        if last >= 0:
            yield int(last), False

    def straight_line(self, ip: int) -> list[int]:
        """Return the instructions, one continuing to the next with no jump to between them, among
        which the one at ``ip`` is."""
        count = lib.lbt_flow_straight_line(self.native, ip, ffi.NULL, 0)
        into = ffi.new("uint64_t[]", count)
        lib.lbt_flow_straight_line(self.native, ip, into, count)
        return [*ffi.unpack(into, count)]

    def is_certain(self, address: int) -> bool:
        """Return whether an instruction at ``address`` was reached, and nothing else that was found
        says other than that."""
        if self.gave_up or address < 0:
            return False
        return bool(lib.lbt_flow_is_certain(self.native, address))

    def reached(self, uncertain: bool) -> dict[int, int]:
        """Return all instructions, or those that are certain, by their addresses, and their
        ends."""
        most = 0 if self.gave_up and not uncertain else len(self.taken())
        starts, ends = ffi.new("uint64_t[]", most), ffi.new("uint64_t[]", most)
        count = most and lib.lbt_flow_reached(self.native, not uncertain, starts, ends)
        return dict(zip(ffi.unpack(starts, count), ffi.unpack(ends, count), strict=True))

    def labels(self) -> list[int]:
        """Return the addresses that the code takes."""
        count = lib.lbt_flow_taken(self.native, self._first) - self._looked_at
        if count > 0:
            into = ffi.new("uint64_t[]", count)
            found = lib.lbt_flow_labels(self.native, self._looked_at, into, count)
            for ip in ffi.unpack(into, found) if found else ():
                each = self.instructions[ip]
                if each.mnemonic == Mnemonic.LEA and each.is_ip_rel_memory_operand:
                    self._taken.append(each.memory_displacement)
            self._looked_at += count
        return self._taken


def depth_of(depth: int) -> int | None:
    """Return a depth that native code gave; None of one that is not known."""
    return None if depth == lib.LBT_NO_DEPTH else depth
