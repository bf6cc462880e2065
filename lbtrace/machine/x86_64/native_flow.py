"""The instructions of an x86-64 function that control flow reaches, found by native code.

It finds what `lbtrace.machine.x86_64.control_flow.Flow` does. No object is made of an instruction
before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around, Body, Extent
from lbtrace.machine.x86_64.computed_jumps import ComputedJumps
from lbtrace.machine.x86_64.control_flow import TRAP, Flow
from lbtrace.machine.x86_64.instructions import Lines
from lbtrace.machine.x86_64.never_returns import LOOKED_AT, never_returns
from lbtrace.machine.x86_64.reached_code import Out, WorkItem, find_labels
from lbtrace.machine.x86_64.stack_depth import ENTRY, POINTERS, UNKNOWN, Stack

_HIDDEN = {
    lib.LBT_HIDDEN_CALL: "whether the call at {:#x} returns is unknown",
    lib.LBT_HIDDEN_END: "the function continues into what follows it at {:#x}",
    lib.LBT_HIDDEN_NO_CODE: "the function is no code from there on at {:#x}",
    lib.LBT_HIDDEN_TRAP: TRAP + "{:#x} is unknown",
}


class Flows:
    """Follows the code of functions of one binary after the other."""

    def __init__(self) -> None:
        self._answers = _Answers()
        self._around: Around | None = None

    @contextmanager
    def follow(
        self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()
    ) -> Iterator[NativeFlow | Flow]:
        """Give the code of a function that is reached: see `Flow`."""
        if around is not self._around:
            self._answers, self._around = _Answers(), around
        answers = self._answers if around.settled else _Answers()
        native = answers.take()
        found: NativeFlow | Flow = NativeFlow(parts, around, native)
        try:
            try:
                assert isinstance(found, NativeFlow)
                found.follow(parts, pads)
            except _UnfitError:
                found = Flow(parts, around, pads)
            yield found
        finally:
            found.__dict__.clear()  # what it consists of refers to it, so that it would stay
            answers.give_back(native)

    def never_returns(self, body: Body, around: Around) -> bool:
        """Return what `never_returns` does, which asks ``around`` the same."""
        answers = _Answers()  # those for now: the asker may be in the midst of another answer
        try:
            return _Asking(body.parts, around, answers.take()).never_returns(body)
        except _UnfitError:
            return never_returns(body, around)


class _Answers:
    """What is known of the functions that are called, and native flows that ask for it: they are
    used again for other functions."""

    def __init__(self) -> None:
        self._native = ffi.gc(lib.lbt_answers_new(), lib.lbt_answers_free)
        self._free: list[Any] = []
        if self._native == ffi.NULL:
            raise MemoryError

    def take(self) -> Any:
        """Return a native flow that nothing else uses."""
        if self._free:
            return self._free.pop()
        native = lib.lbt_flow_new(self._native)
        if native == ffi.NULL:
            raise MemoryError
        return ffi.gc(native, lib.lbt_flow_free)

    def give_back(self, native: Any) -> None:
        """Use it for another function."""
        lib.lbt_flow_reset(native)
        self._free.append(native)


class _UnfitError(Exception):
    """The code is left to `Flow`."""


class _Asking(Extent):
    """Code that native code follows, and what it asks."""

    def __init__(self, parts: Sequence[Code], around: Around, native: Any) -> None:
        super().__init__((), around)
        self.around = around
        self.start = parts[0].address
        self.native = native
        self._pieces: list[Any] = []

    def never_returns(self, body: Body) -> bool:
        """Return whether no way from the beginning, and from the pads, ends in a return."""
        for part in body.parts:
            self._add(part)
        for start in (*body.pads, self.start):
            lib.lbt_flow_from(self.native, start, 0, 0, 0)
        about = ffi.new("uint64_t *")
        while (need := lib.lbt_flow_ends(self.native, LOOKED_AT, about)) >= 0:
            self._answer(need, about[0])
        return bool(need == lib.LBT_NEVER_RETURNS)

    def knows(self, address: int) -> bool:
        """See `Extent.knows`."""
        known = len(self.parts)
        found = super().knows(address)
        for part in self.parts[known:]:
            self._add_native(part)
        return found

    def _add(self, part: Code) -> None:
        self.parts.append(part)
        self._add_native(part)

    def _add_native(self, part: Code) -> None:
        piece = ffi.from_buffer("unsigned char[]", part.code)
        self._pieces.append(piece)
        if not lib.lbt_flow_add(self.native, piece, len(part.code), part.address):
            raise _UnfitError

    def _answer(self, need: int, address: int) -> None:
        """Tell native code what it has to know."""
        ends = False
        if need in (lib.LBT_NEEDS_END, lib.LBT_NEEDS_SLOT):
            ends = self.around.ends(address, pointer=need == lib.LBT_NEEDS_SLOT)
        elif need == lib.LBT_NEEDS_PART:
            part = self.around.more(address)
            if part is not None:
                self._add(part)
        elif need == lib.LBT_NEEDS_DECODER:
            return self._decode(address)
        else:
            raise _UnfitError
        if not lib.lbt_flow_answer(self.native, need, address, ends):
            raise _UnfitError
        return None

    def _decode(self, address: int) -> None:
        instruction = Decoder(64, self.raw_of(address, 15)[0], ip=address).decode()
        kind = lib.LBT_PLAIN
        if instruction.is_invalid:
            kind = lib.LBT_INVALID
        elif (
            instruction.flow_control != FlowControl.NEXT
            or instruction.is_stack_instruction
            or instruction.op0_register in POINTERS
            or instruction.mnemonic in (Mnemonic.NOP, Mnemonic.HLT)
        ):
            raise _UnfitError
        lib.lbt_flow_decoded(self.native, address, kind, instruction.len)


class NativeFlow(_Asking):
    """The code of a function that is reached: see `ReachedCode`."""

    def __init__(self, parts: Sequence[Code], around: Around, native: Any) -> None:
        super().__init__(parts, around, native)
        self.lines = Lines()
        self.instructions = _Instructions(self)
        self.before = _Before(native)
        self.sources = _Sources(native)
        self.outs: dict[int, Out] = {}
        self.hidden: dict[int, str] = {}
        self.tables: list[range] = []
        self.restarts = False
        self.landed: set[int] = set()
        self._computed = ComputedJumps(self, self._continue)
        self._taken: list[int] = []
        self._seen_outs = self._seen_hidings = self._looked_at = 0

    def follow(self, parts: Sequence[Code], pads: Sequence[int]) -> None:
        """Follow the code from its beginning on, and from ``pads``."""
        for part in parts:
            self._add(part)
        self._continue(WorkItem(self.start, ENTRY))
        self.follow_all(len(parts), pads, self._land, self._computed.follow)
        for ip, why in [*self.hidden.items()]:
            if why.startswith(TRAP) and ip in self.instructions:
                del self.hidden[ip]  # it is reached otherwise

    def _continue(self, way: WorkItem) -> None:
        """Follow the code from ``way`` on."""
        pointer, base = (lib.LBT_NO_DEPTH if d is None else d for d in way.stack)
        lib.lbt_flow_from(self.native, way.address, pointer, base, way.source)
        about = ffi.new("uint64_t *")
        while need := lib.lbt_flow_run(self.native, about):
            self._answer(need, about[0])
        self.restarts |= bool(lib.lbt_flow_restarts(self.native))
        self._note_outs()
        self._note_hidden()

    def _land(self, pad: int) -> None:
        """Follow the code from a landing pad on."""
        self.landed.add(pad)
        self._continue(WorkItem(pad, UNKNOWN))

    def _note_outs(self) -> None:
        outs = ffi.new("const struct lbt_out **")
        count = lib.lbt_flow_outs(self.native, outs)
        for number in range(self._seen_outs, count):
            out = outs[0][number]
            ip, pointer = out.address, _depth(out.pointer)
            if out.kind == lib.FLOW_JUMP_THROUGH:
                self._computed.stacks[ip] = Stack(pointer, _depth(out.base))
            elif out.kind == lib.FLOW_RETURN:
                self.outs[ip] = Out(self.instructions[ip], "return")
            else:
                self.outs[ip] = Out(self.instructions[ip], "tail", pointer or 0)
        self._seen_outs = count

    def _note_hidden(self) -> None:
        hidings = ffi.new("const struct lbt_hiding **")
        count = lib.lbt_flow_hidings(self.native, hidings)
        for number in range(self._seen_hidings, count):
            hiding = hidings[0][number]
            if hiding.why == lib.LBT_HIDDEN_PUSHED:
                raise _UnfitError
            self.hidden[hiding.key] = _HIDDEN[hiding.why].format(hiding.at)
        self._seen_hidings = count

    def meet(self, meeting: int, ip: int) -> None:
        """See `FollowedCode.meet`."""
        if not lib.lbt_flow_meet(self.native, meeting, ip):
            raise _UnfitError
        self.sources.meetings.setdefault(meeting, []).append(ip)

    def stretch(self, ip: int) -> list[int]:
        """See `FollowedCode.stretch`."""
        count = lib.lbt_flow_stretch(self.native, ip, ffi.NULL, 0)
        into = ffi.new("uint64_t[]", count)
        lib.lbt_flow_stretch(self.native, ip, into, count)
        return [*ffi.unpack(into, count)]

    def raw(self, ip: int) -> tuple[bytes, int]:
        """See `FollowedCode.raw`."""
        return self.raw_of(ip, lib.lbt_flow_length(self.native, ip))

    def stack_at(self, ip: int) -> Stack | None:
        """See `FollowedCode.stack_at`."""
        stack = ffi.new("int32_t[2]")
        if not lib.lbt_flow_depth(self.native, ip, stack, stack + 1):
            return None
        return Stack(_depth(stack[0]), _depth(stack[1]))

    def is_certain(self, instruction: Instruction) -> bool:
        """See `FollowedCode.is_certain`."""
        start, end = instruction.ip, instruction.next_ip
        if any(table.start < end and start < table.stop for table in self.tables):
            return False
        return bool(lib.lbt_flow_is_apart(self.native, start))

    def certain(self) -> dict[int, int]:
        """See `FollowedCode.certain`."""
        native, length, is_apart = self.native, lib.lbt_flow_length, lib.lbt_flow_is_apart
        found = {ip: ip + length(native, ip) for ip in self.instructions if is_apart(native, ip)}
        for table in self.tables:
            for ip in [i for i, end in found.items() if table.start < end and i < table.stop]:
                del found[ip]
        return found

    def is_in_loop(self, address: int, most: int) -> bool:
        """See `FollowedCode.is_in_loop`."""
        return bool(lib.lbt_flow_in_loop(self.native, address, most))

    def labels(self) -> list[int]:
        """See `FollowedCode.labels`."""
        self._taken += find_labels(self._selected(lib.LBT_LABELS, self._looked_at))
        self._looked_at = len(self.instructions)
        return self._taken

    def framed(self, since: int) -> Iterator[Instruction]:
        """See `FollowedCode.framed`."""
        return self._selected(lib.LBT_FRAMED, since)

    def _selected(self, selection: int, since: int) -> Iterator[Instruction]:
        count = len(self.instructions) - since
        if count <= 0:
            return iter(())
        into = ffi.new("uint64_t[]", count)
        found = lib.lbt_flow_selected(self.native, selection, since, into, count)
        return map(self.instructions.__getitem__, ffi.unpack(into, found) if found else ())


class _Instructions:
    """The instructions that were reached, by their addresses; each decoded when it is needed."""

    def __init__(self, flow: NativeFlow) -> None:
        self._flow = flow
        self._made: dict[int, Instruction] = {}

    def get(self, ip: int) -> Instruction | None:
        found = self._made.get(ip)
        if found is None and ip >= 0 and lib.lbt_flow_length(self._flow.native, ip):
            part = self._flow.part(ip)
            assert part is not None
            found = self._made[ip] = self._flow.lines.decoder(part, ip).decode()
        return found

    def __getitem__(self, ip: int) -> Instruction:
        found = self.get(ip)
        if found is None:
            raise KeyError(ip)
        return found

    def __contains__(self, ip: object) -> bool:
        return isinstance(ip, int) and ip >= 0 and lib.lbt_flow_length(self._flow.native, ip) > 0

    def __len__(self) -> int:
        return int(lib.lbt_flow_taken(self._flow.native, ffi.new("const uint64_t **")))

    def __iter__(self) -> Iterator[int]:
        return iter(self._addresses(0))

    def values(self, since: int = 0) -> Iterator[Instruction]:
        return map(self.__getitem__, self._addresses(since))

    def _addresses(self, since: int) -> list[int]:
        addresses = ffi.new("const uint64_t **")
        count = lib.lbt_flow_taken(self._flow.native, addresses)
        return ffi.unpack(addresses[0] + since, count - since) if count > since else []


class _Before:
    """What continues to an instruction."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def get(self, ip: int) -> int | None:
        found = lib.lbt_flow_before(self._native, ip) if ip >= 0 else -1
        return None if found < 0 else int(found)

    def __getitem__(self, ip: int) -> int:
        return int(lib.lbt_flow_before(self._native, ip))

    def __contains__(self, ip: object) -> bool:
        return isinstance(ip, int) and ip >= 0 and lib.lbt_flow_before(self._native, ip) >= 0


class _Sources:
    """What jumps to an instruction, or to a place where computed jumps meet."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.meetings: dict[int, list[int]] = {}

    def get(self, ip: int, default: Sequence[int] = ()) -> Sequence[int]:
        if ip < 0:
            return self.meetings.get(ip, [*default])
        count = lib.lbt_flow_sources(self._native, ip, ffi.NULL, 0)
        if not count:
            return default
        into = ffi.new("int64_t[]", count)
        lib.lbt_flow_sources(self._native, ip, into, count)
        return [*reversed(ffi.unpack(into, count))]

    def __contains__(self, ip: object) -> bool:
        assert isinstance(ip, int)
        if ip < 0:
            return ip in self.meetings
        return bool(lib.lbt_flow_sources(self._native, ip, ffi.NULL, 0))


def _depth(depth: int) -> int | None:
    return None if depth == lib.LBT_NO_DEPTH else depth
