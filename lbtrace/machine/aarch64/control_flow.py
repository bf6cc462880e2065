"""The instructions of an arm64 function that control flow reaches, and the jumps that
leave it: what `lbtrace.machine.x86_64.control_flow` is for x86-64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lbtrace.machine.aarch64.instructions import (
    ends_line,
    is_authenticated_ret,
    is_b,
    is_bl,
    is_br,
    is_ret,
    is_trap,
    jump,
    signed,
)
from lbtrace.machine.aarch64.jump_targets import Targets
from lbtrace.machine.aarch64.reached_code import ReachedCode
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around, Body, Extent

LOOKED_AT = 200
"""Instructions within which it must turn out that a function never returns."""

ROUNDS = 16
"""Times that jumps through tables are looked at again, as more code becomes known."""


class Flow(ReachedCode):
    """The code of a function that is reached from its start, and from ``pads``, at which the
    program may continue after an exception."""

    def __init__(self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()) -> None:
        super().__init__(parts, around)
        self._indirect: list[int] = []
        self._follow(self.start)
        self.follow_all(len(parts), pads, self._land, self._follow_tables)
        self.outs += sorted(self.computed)

    def _land(self, pad: int) -> None:
        """Follow the code from a landing pad on."""
        self.landed.add(pad)
        self._follow(pad)

    def _follow(self, address: int, source: int = -1) -> None:
        """Follow the code from ``address`` on, to which ``source`` leads."""
        ways = [(address, source)]
        while ways:
            address, source = ways.pop()
            if source >= 0:
                self.sources.setdefault(address, []).append(source)
            if address not in self.instructions:
                ways += self._run(address)

    def _run(self, address: int) -> Iterator[tuple[int, int]]:
        """Follow one straight line to its end, and give where it branches."""
        part, last = self.part(address), -1
        if part is None or (address - part.address) % 4:
            return
        words = self.words(part)
        at, known = (address - part.address) // 4, False
        while at < len(words.words):
            end, known = words.turn(at)
            last = self.take(part, words, range(at, end), last)
            address, at = part.address + 4 * end, end
            if known and last >= 0:
                self.before[address] = last
            if known:
                return
            word = self.instructions[last]
            if word >> 16 == 0:
                return  # udf: C4.1.1
            yield from self._branch(last, word)
            if not self._goes_on(last, word):
                return
        if last >= 0 and not is_bl(self.instructions[last]):
            self.hidden[address] = f"the function continues into what follows it at {address:#x}"

    def _goes_on(self, address: int, word: int) -> bool:
        if is_bl(word):
            target = address + signed(word, 0, 26)
            if self.is_within(target):
                self.hidden[address] = f"whether the call at {address:#x} returns is unknown"
                return False
            return not self.around.ends(target)
        return not ends_line(word)

    def _branch(self, address: int, word: int) -> Iterator[tuple[int, int]]:
        distance = jump(word)
        if is_bl(word):
            target = address + signed(word, 0, 26)
            if self.is_within(target):
                yield target, address
        elif is_ret(word):
            self.outs.append(address)
        elif is_authenticated_ret(word):
            self.hidden[address] = f"the kernel refuses a probe at {address:#x}"
        elif is_br(word):
            self._indirect.append(address)
        elif distance is not None:
            target = address + distance
            self.loops_to_entry |= target == self.start
            # With nothing on the stack it is a tail call, whatever lies there.
            stays = self.part(target) or not (is_b(word) and self.keeps_stack)
            if stays and self.knows(target):
                yield target, address
            else:
                self.outs.append(address)

    def _follow_tables(self) -> None:
        """Follow the jumps whose targets are computed, until no more becomes known."""
        known: dict[int, set[int]] = {}
        targets = Targets(self)
        for _ in range(ROUNDS if self._indirect else 0):
            grown = False
            targets.forget()
            found = [(at, targets.of(at)) for at in self._indirect]
            for at, leads in found:
                self.hidden.pop(at, None)
                inside = leads and all(self.part(a) or (leads.inside and self.knows(a))
                                       for a in leads.addresses)  # fmt: skip
                if leads is None or not inside:
                    self._leave(at, switch=bool(leads and leads.inside) or targets.is_sum(at))
                    continue
                if leads.open:
                    self.computed.add(at)
                self.tables += [table for table in leads.tables if self.part(table.start)]
                new = set(leads.addresses) - known.setdefault(at, set())
                known[at] |= new
                grown |= bool(new)
                self.loops_to_entry |= self.start in new
                for target in sorted(new):
                    self._follow(target, at)
            if not grown:
                break

    def _leave(self, at: int, *, switch: bool) -> None:
        if switch:
            self.hidden[at] = f"where the jump at {at:#x} leads is not known"
            self.computed.discard(at)
            return
        self.computed.add(at)
        if not is_b(self.instructions[at]) and any(self.labels()):
            self.hidden[at] = f"where the jump at {at:#x} leads is not known"


def never_returns(body: Body, around: Around) -> bool:
    """See `lbtrace.machine.x86_64.never_returns.never_returns`."""
    extent = Extent(body.parts, around)
    seen: set[int] = set()
    ahead = [*body.pads, body.parts[0].address]
    while ahead:
        address = ahead.pop()
        while address not in seen:
            code = extent.part(address)
            if code is None or len(seen) > LOOKED_AT:
                return False
            into = address - code.address
            if into > len(code.code) - 4:
                return False
            seen.add(address)
            word = int.from_bytes(code.code[into : into + 4], "little")
            distance = jump(word)
            if is_bl(word):
                if around.ends(address + signed(word, 0, 26)) or into + 8 > len(code.code):
                    break
            elif distance is not None:
                ahead.append(address + distance)
                if is_b(word):
                    break
            elif is_trap(word):
                break
            elif ends_line(word):
                return False
            address += 4
    return True
