"""What is known of the code of an x86-64 function while it is followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple, Protocol, TypeVar

from iced_x86 import Instruction, Mnemonic

from lbtrace.machine.code import Code, ExitKind
from lbtrace.machine.function_code import Around, Extent
from lbtrace.machine.x86_64.instructions import Lines
from lbtrace.machine.x86_64.stack_depth import Stack

_LONGEST = 15


class WorkItem(NamedTuple):
    """An instruction to continue from, and what leads there: a jump, or where computed jumps meet
    (0: none)."""

    address: int
    stack: Stack
    source: int = 0


class Out(NamedTuple):
    """An instruction by which the function is left; the stack pointer is ``sinks`` bytes
    below its value at entry there. A ``computed`` jump may also stay."""

    instruction: Instruction
    kind: ExitKind
    sinks: int = 0
    computed: bool = False


T_co = TypeVar("T_co", covariant=True)


class Found(Protocol[T_co]):
    """What is known of instructions, by their addresses."""

    def get(self, ip: int, /) -> T_co | None:
        """Return what is known; None of what is no instruction, or where nothing is."""

    def __getitem__(self, ip: int, /) -> T_co: ...

    def __contains__(self, ip: object, /) -> bool: ...


class Instructions(Found[Instruction], Protocol):
    """The instructions that were reached, in the order in which they were."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def values(self) -> Iterable[Instruction]:
        """Return the instructions."""


class Sources(Protocol):
    """What jumps to instructions, by their addresses."""

    def get(self, ip: int, default: Sequence[int], /) -> Sequence[int]:
        """Return what does."""

    def __contains__(self, ip: object, /) -> bool: ...


class FollowedCode(Protocol):
    """The code of a function as far as it is known: see `ReachedCode`, which has the same names."""

    parts: list[Code]
    around: Around
    start: int
    lines: Lines
    outs: dict[int, Out]
    hidden: dict[int, str]
    tables: list[range]
    restarts: bool
    landed: set[int]

    @property
    def instructions(self) -> Instructions:
        """Those reached, by their addresses."""

    @property
    def before(self) -> Found[int]:
        """What continues to each."""

    @property
    def sources(self) -> Sources:
        """What jumps to each."""

    def part(self, address: int) -> Code | None:
        """See `Extent.part`."""

    def knows(self, address: int) -> bool:
        """See `Extent.knows`."""

    def raw_of(self, address: int, size: int) -> tuple[bytes, int]:
        """See `Extent.raw_of`."""

    def meet(self, meeting: int, ip: int) -> None:
        """Note that the computed jump at ``ip`` leads to where others meet."""

    def stretch(self, ip: int) -> list[int]:
        """Return the instructions, one continuing to the next with no jump to between them, among
        which the one at ``ip`` is."""

    def raw(self, ip: int) -> tuple[bytes, int]:
        """Return the bytes of an instruction that was reached, and their position in the file."""

    def stack_at(self, ip: int) -> Stack | None:
        """Return the stack at a branch; None of another instruction."""

    def is_certain(self, instruction: Instruction) -> bool:
        """Return whether nothing else that was found says other than that ``instruction`` is
        one."""

    def certain(self) -> dict[int, int]:
        """Return all instructions that are certain, by their addresses, and their ends."""

    def is_in_loop(self, address: int, most: int) -> bool:
        """Return whether the instruction at ``address`` may lead back to itself; true also where
        more than ``most`` lead to it."""

    def framed(self, since: int) -> Iterator[Instruction]:
        """Return those of the instructions, from one on in the order in which they were reached,
        that access memory at rsp or rbp; others may be among them."""

    def labels(self) -> list[int]:
        """Return the addresses that the code takes."""


class ReachedCode(Extent):
    """The code of a function as far as it is known.

    ``instructions`` are those reached, by their addresses; ``before`` gives of
    an instruction the one that continues to it, ``sources`` those that jump to it. Computed jumps
    to the same places meet at one with a negative number, so that they need not be followed one by
    one. ``outs`` are the exits, ``hidden`` describes exits that no probe can watch. ``restarts``
    says that a jump leads to the first instruction, ``tables`` where in the code tables lie;
    ``landed`` are the landing pads that were followed.
    ``depths`` are the stacks at branches.
    """

    def __init__(self, parts: Sequence[Code], around: Around) -> None:
        super().__init__(parts, around)
        self.around = around
        self.start = parts[0].address
        self.lines = Lines()
        self.instructions: dict[int, Instruction] = {}
        self.before: dict[int, int] = {}
        self.sources: dict[int, list[int]] = {}
        self.outs: dict[int, Out] = {}
        self.hidden: dict[int, str] = {}
        self.tables: list[range] = []
        self.restarts = False
        self.landed: set[int] = set()
        self.depths: dict[int, Stack] = {}
        self._stretches: list[tuple[int, int]] = []
        self._taken: list[int] = []
        self._looked_at = 0

    def take(self, first: int, after: int, last: int) -> int:
        """Note that the instructions at these positions are reached one after the other, the
        first from the one at ``last``, if any; the last of all of them."""
        if first == after:
            return last
        lines = self.lines
        addresses = lines.addresses[first:after]
        self.instructions.update(zip(addresses, lines.instructions[first:after], strict=True))
        self.before.update(zip(addresses[1:], addresses, strict=False))
        if last >= 0:
            self.before[addresses[0]] = last
        lines.take(first, after)
        self._stretches.append((addresses[0], lines.instructions[after - 1].next_ip))
        return addresses[-1]

    def is_certain(self, instruction: Instruction) -> bool:
        """Return whether nothing else that was found says other than that ``instruction`` is
        one."""
        start, end = instruction.ip, instruction.next_ip
        if any(table.start < end and start < table.stop for table in self.tables):
            return False
        return not self._overlap or self._is_apart(start, end)

    def certain(self) -> dict[int, int]:
        """See `FollowedCode.certain`."""
        return {i.ip: i.next_ip for i in self.instructions.values() if self.is_certain(i)}

    def _is_apart(self, start: int, end: int) -> bool:
        """Whether no other instruction that was reached shares a byte with the one there."""
        if any(ip in self.instructions for ip in range(start + 1, end)):
            return False
        earlier = (self.instructions.get(ip) for ip in range(start - _LONGEST + 1, start))
        return all(other is None or other.next_ip <= start for other in earlier)

    @cached_property
    def _overlap(self) -> bool:
        """Whether any two instructions share a byte: then stretches do that were reached
        by different ways."""
        self._stretches.sort()
        return any(stop > start for (_, stop), (start, _) in pairwise(self._stretches))

    def meet(self, meeting: int, ip: int) -> None:
        """See `FollowedCode.meet`."""
        self.sources.setdefault(meeting, []).append(ip)

    def stretch(self, ip: int) -> list[int]:
        """See `FollowedCode.stretch`."""
        begin = ip
        while begin not in self.sources and begin in self.before:
            begin = self.before[begin]
        line = [begin]
        while begin in self.instructions:
            following = self.instructions[begin].next_ip
            if self.before.get(following) != begin or following in self.sources:
                break
            line.append(following)
            begin = following
        return line

    def raw(self, ip: int) -> tuple[bytes, int]:
        """See `FollowedCode.raw`."""
        return self.raw_of(ip, self.instructions[ip].len)

    def stack_at(self, ip: int) -> Stack | None:
        """See `FollowedCode.stack_at`."""
        return self.depths.get(ip)

    def is_in_loop(self, address: int, most: int) -> bool:
        """See `FollowedCode.is_in_loop`."""
        seen: set[int] = set()
        ahead = [address]
        while ahead:
            for source in self._leading(ahead.pop()):
                if source == address or len(seen) > most:
                    return True
                if source not in seen:
                    seen.add(source)
                    ahead.append(source)
        return False

    def _leading(self, ip: int) -> Iterator[int]:
        """The instructions, and meetings of computed jumps, that lead to ``ip``."""
        yield from self.sources.get(ip, ())
        if ip in self.before:
            yield self.before[ip]

    def framed(self, since: int) -> Iterator[Instruction]:
        """See `FollowedCode.framed`."""
        return islice(self.instructions.values(), since, None)

    def labels(self) -> list[int]:
        """See `FollowedCode.labels`."""
        self._taken += find_labels(islice(self.instructions.values(), self._looked_at, None))
        self._looked_at = len(self.instructions)
        return self._taken


def find_labels(instructions: Iterable[Instruction]) -> Iterator[int]:
    """Return the addresses that instructions take."""
    for instruction in instructions:
        if instruction.mnemonic == Mnemonic.LEA and instruction.is_ip_rel_memory_operand:
            yield instruction.memory_displacement
