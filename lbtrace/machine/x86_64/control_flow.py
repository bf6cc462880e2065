"""The instructions of an x86-64 function that control flow reaches, and how it leaves them.

Native code follows them (``lbtrace/native/flow.h``). No object is made of an instruction before it
is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Code
from lbtrace.machine.code_ranges import unite
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.x86_64.computed_jumps import ComputedJumps
from lbtrace.machine.x86_64.native_code import (
    LOOKED_AT,
    NativeCode,
    OverlapError,
    UnfitError,
)
from lbtrace.machine.x86_64.reached_code import Out, ReachedCode, WorkItem, depth_of
from lbtrace.machine.x86_64.stack_depth import ENTRY, UNKNOWN, Stack

TRAP = "what follows the trap at "

_HIDDEN = {
    lib.LBT_HIDDEN_CALL: "whether the call at {:#x} returns is unknown",
    lib.LBT_HIDDEN_END: "the function continues into what follows it at {:#x}",
    lib.LBT_HIDDEN_NO_CODE: "the function is no code from there on at {:#x}",
    lib.LBT_HIDDEN_TRAP: TRAP + "{:#x} is unknown",
    lib.LBT_HIDDEN_PUSHED: "the return at {:#x} leads to what was pushed",
}

T = TypeVar("T")


class Flows:
    """Follows the code of functions of one binary after the other."""

    def __init__(self) -> None:
        self._answers = _Answers()
        self._returning = _Answers()
        self._spare: list[_Answers] = []
        self._around: Around | None = None

    def follow(
        self, parts: Sequence[Code], around: Around, pads: Sequence[int], look: Callable[[Flow], T]
    ) -> T:
        """Return what ``look`` sees in the code of a function that is reached from its start, and
        from ``pads``, at which the program may continue after an exception."""
        if around is not self._around:
            self._answers, self._around = _Answers(), around
        answers = self._answers if around.settled else self._take_none()
        native = answers.take()
        found = Flow(parts, around, native)
        try:
            while (more := found.follow(parts, pads)) is not None:
                parts, pads = unite(parts, more), (*pads, *around.landing_pads(more))
                found.__dict__.clear()
                lib.lbt_flow_reset(native)
                found = Flow(parts, around, native)
            return look(found)
        finally:
            found.__dict__.clear()  # what it consists of refers to it, so that it would stay
            self._give_back(answers, native)

    def _take_none(self) -> _Answers:
        """Return no answers, for those for now: the asker may be in the midst of another one."""
        return self._spare.pop() if self._spare else _Answers()

    def _give_back(self, answers: _Answers, native: Any) -> None:
        answers.give_back(native)
        if answers is not self._answers:
            lib.lbt_answers_forget(answers.native)
            self._spare.append(answers)

    def surely_returns(
        self, code: memoryview, address: int, returns: Callable[[int], bool]
    ) -> bool:
        """See `lbtrace.machine.ExitFinder.surely_returns`."""
        known, data = self._returning.native, ffi.from_buffer("unsigned char[]", code)
        asked = ffi.new("uint64_t[]", lib.LBT_ASKED)
        while not lib.lbt_surely_returns(known, data, len(code), address, LOOKED_AT, asked):
            further = filter(returns, iter(iter(asked).__next__, 0))
            if not sum(lib.lbt_answers_add(known, each, False, False) for each in further):
                return False
        return True

    def never_returns(self, body: Body, around: Around) -> bool:
        """Return whether every path from the beginning of ``body``, and from where it continues
        after exceptions, ends in a call that never returns, in a trap, or in an endless loop; false
        where that takes long to decide."""
        answers = self._take_none()
        native = answers.take()
        try:
            return NativeCode(body.parts, around, native).never_returns(body)
        except UnfitError:
            return False
        finally:
            self._give_back(answers, native)


class _Answers:
    """What is known of the functions that are called, and native flows that ask for it: they are
    used again for other functions."""

    def __init__(self) -> None:
        self.native = ffi.gc(lib.lbt_answers_new(), lib.lbt_answers_free)
        self._free: list[Any] = []
        if self.native == ffi.NULL:
            raise MemoryError

    def take(self) -> Any:
        """Return a native flow that nothing else uses."""
        if self._free:
            return self._free.pop()
        native = lib.lbt_flow_new(self.native)
        if native == ffi.NULL:
            raise MemoryError
        return ffi.gc(native, lib.lbt_flow_free)

    def give_back(self, native: Any) -> None:
        """Use it for another function."""
        lib.lbt_flow_reset(native)
        self._free.append(native)


class Flow(ReachedCode):
    """Follows code, and notes what it finds."""

    def __init__(self, parts: Sequence[Code], around: Around, native: Any) -> None:
        super().__init__(parts, around, native)
        self._computed = ComputedJumps(self, self._continue)
        self._found = ffi.new("struct lbt_found *")
        self._seen_outs = self._seen_hidings = 0

    def follow(self, parts: Sequence[Code], pads: Sequence[int]) -> Code | None:
        """Follow the code from its beginning on, and from ``pads``; all of it, or up to where it
        needs what overlaps what it has: that is to be joined, and followed again."""
        try:
            self._follow(parts, pads)
        except OverlapError as error:
            return error.part
        except UnfitError as error:
            self.give_up(str(error))
        return None

    def _follow(self, parts: Sequence[Code], pads: Sequence[int]) -> None:
        for part in parts:
            self.add(part)
        self._continue(WorkItem(self.start, ENTRY))
        self.follow_all(len(parts), pads, self._land, self._computed.follow)
        if self.hidden:
            self._judge_hidden()

    def give_up(self, why: str) -> None:
        """Note that the code is not followed to its ends."""
        self.outs.clear()
        self.hidden = {self.start: why}
        self.gave_up = True

    def _continue(self, way: WorkItem) -> None:
        """Follow the code from ``way`` on."""
        pointer, base = way.stack
        pointer = lib.LBT_NO_DEPTH if pointer is None else pointer
        base = lib.LBT_NO_DEPTH if base is None else base
        found = self._found
        lib.lbt_flow_from(self.native, way.address, pointer, base, way.source)
        while need := lib.lbt_flow_run(self.native, found):
            self.answer(need, found.about)
        self.loops_to_entry |= bool(found.loops_to_entry)
        self.loses_stack = bool(found.loses_stack)
        if found.out_count > self._seen_outs:
            self._note_outs(found)
        if found.hiding_count > self._seen_hidings:
            self._note_hidden(found)

    def _land(self, pad: int) -> None:
        """Follow the code from a landing pad on."""
        self.landed.add(pad)
        self._continue(WorkItem(pad, UNKNOWN))

    def _note_outs(self, found: Any) -> None:
        for number in range(self._seen_outs, found.out_count):
            out = found.outs[number]
            ip, pointer = out.address, depth_of(out.pointer)
            if out.kind == lib.FLOW_JUMP_THROUGH:
                self._computed.stacks[ip] = Stack(pointer, depth_of(out.base))
            elif out.kind == lib.FLOW_RETURN:
                self.outs[ip] = Out("return")
            else:
                self.outs[ip] = Out("tail", pointer or 0)
        self._seen_outs = found.out_count

    def _note_hidden(self, found: Any) -> None:
        for number in range(self._seen_hidings, found.hiding_count):
            hiding = found.hidings[number]
            self.hidden[hiding.key] = _HIDDEN[hiding.why].format(hiding.at)
        self._seen_hidings = found.hiding_count

    def _judge_hidden(self) -> None:
        """Take back what other ways to the same code say otherwise."""
        lib.lbt_flow_judge(self.native, self._found)
        for number in range(self._seen_outs, self._found.out_count):
            self.hidden.pop(self._found.outs[number].address, None)
        self._note_outs(self._found)
        for ip, why in [*self.hidden.items()]:
            if why.startswith(TRAP) and lib.lbt_flow_length(self.native, ip):
                del self.hidden[ip]  # it is reached otherwise
