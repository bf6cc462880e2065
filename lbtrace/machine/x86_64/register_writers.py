"""Which instructions of an x86-64 function last wrote a register, on every way to a place."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import iced_x86
from iced_x86 import FlowControl

from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

if TYPE_CHECKING:
    from lbtrace.machine.x86_64.reached_code import ReachedCode

STEPS = 4000
"""Straight lines of code that are looked through for one register, at most."""

MOST = 64
"""Instructions that may have written a register last, at most."""

CLOBBERED = frozenset({"ax", "cx", "dx", "si", "di", "r8", "r9", "r10", "r11"})
"""What a call may change: System V psABI, figure 3.4."""

_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_INFO = iced_x86.InstructionInfoFactory()


@lru_cache(maxsize=100_000)
def _written(raw: bytes) -> frozenset[str]:
    """The registers that an instruction writes, or parts of which: the same at any address."""
    instruction = iced_x86.Decoder(64, raw).decode()
    if instruction.flow_control in _CALLS:
        return CLOBBERED
    return frozenset(
        REGISTERS.get(iced_x86.RegisterExt.full_register(used.register), "")
        for used in _INFO.info(instruction).used_registers()
        if used.access in WRITES
    )


class Writers:
    """The writers of registers in the code that is known so far."""

    def __init__(self, code: ReachedCode) -> None:
        self.code = code
        self._start: dict[int, int] = {}
        self._lines: dict[int, list[int]] = {}
        self._last: dict[int, dict[str, int]] = {}
        self._written: dict[int, frozenset[str]] = {}
        self._found: dict[tuple[str, int], frozenset[int | None]] = {}
        self._asked: set[tuple[str, int]] = set()

    def forget(self) -> None:
        """Forget what may be otherwise now, as more code has become known."""
        self._start.clear()
        self._lines.clear()
        self._last.clear()
        self._found.clear()

    def of(self, name: str, ip: int) -> frozenset[int | None]:
        """Return the instructions that may have written the register last before ``ip``; among
        them None if that may be before the function, or is too far away."""
        start = self._begin(ip)
        for at in reversed(self._lines[start][: self._lines[start].index(ip)]):
            if name in self.written(at):
                return frozenset({at})
        return self._at_start(name, start)

    def before(self, ip: int) -> list[tuple[int, bool]]:
        """Return the instructions that lead to the one at ``ip``, and whether by a jump. One of
        them may be a place where computed jumps meet: see `ReachedCode`."""
        sources = [(source, True) for source in self.code.sources.get(ip, ())]
        last = self.code.before.get(ip)
        return sources if last is None else [(last, False), *sources]

    def written(self, ip: int) -> frozenset[str]:
        """Return the registers that an instruction writes, or parts of which."""
        known = self._written.get(ip)
        if known is None:
            known = self._written[ip] = _written(self.code.raw(ip)[0])
        return known

    def _begin(self, ip: int) -> int:
        """Where the straight line of code begins that comes to ``ip`` with no jump to within it."""
        begin = self._start.get(ip)
        if begin is None:
            line = self.code.straight_line(ip) if ip >= 0 else [ip]
            begin = line[0]
            self._lines[begin] = line
            self._start.update(dict.fromkeys(line, begin))
        return begin

    def _at_start(self, name: str, start: int) -> frozenset[int | None]:
        """The same as `of`, for the beginning of a straight line."""
        found = self._found.get((name, start))
        if found is None:
            self._asked.add((name, start))
            found = self._found[name, start] = self._before(name, start)
            self._asked.discard((name, start))
        return found

    def _before(self, name: str, start: int) -> frozenset[int | None]:
        found: set[int | None] = set()
        seen = {start}
        ahead = [start]
        landed = of_calls = False
        while ahead or (landed and not found):
            if ahead:
                at = ahead.pop()
                leading = self.before(at)
                carried = self._is_carried(name, at)
                landed |= carried
                if at == self.code.start or not (leading or carried):
                    found.add(None)
            else:
                leading, landed, of_calls = self._calls(), False, True
            if len(seen) > STEPS or len(found) > MOST:
                return frozenset({None, *found})
            for source, _ in leading:
                begin = self._begin(source)
                last = self._last_write(name, begin, source)
                if last is not None:
                    found.add(last)
                elif begin not in seen:
                    seen.add(begin)
                    known = self._known(name, begin)
                    if known is None:
                        ahead.append(begin)
                    else:
                        found |= known
        # What its caller left in a register that it has to restore is nothing that it reads.
        return frozenset((found - {None} if of_calls else found) or {None})

    def _is_carried(self, name: str, at: int) -> bool:
        """Whether the unwinder restores the register before it comes to a landing pad at ``at``:
        it holds then what it held at one of the function's calls. What other ways say of it is
        true of these, so the calls are asked only where there is no other way."""
        return at in self.code.landed and name not in CLOBBERED

    def _calls(self) -> list[tuple[int, bool]]:
        """The calls that are known, as what leads to landing pads."""
        known = self.code.instructions.values()
        return [(i.ip, True) for i in known if i.flow_control in _CALLS]

    def _known(self, name: str, begin: int) -> frozenset[int | None] | None:
        """What was found for the beginning of a straight line. Where computed jumps meet it is
        worked out, since from there on it is the same for all that they lead to."""
        if begin < 0 and (name, begin) not in self._asked:
            return self._at_start(name, begin)
        return self._found.get((name, begin))

    def _last_write(self, name: str, begin: int, end: int) -> int | None:
        """Where the straight line from ``begin`` to ``end`` last writes the register."""
        if begin < 0:
            return None
        line = self._lines[begin]
        if line[-1] == end:
            last = self._last.get(begin)
            if last is None:
                last = self._last[begin] = {w: ip for ip in line for w in self.written(ip)}
            return last.get(name)
        inside = line[: line.index(end) + 1]
        return next((ip for ip in reversed(inside) if name in self.written(ip)), None)
