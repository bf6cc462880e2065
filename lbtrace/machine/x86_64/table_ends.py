"""Finds the entries of jump tables whose length nothing says: an exhaustive ``match`` of Rust
compares its index with nothing.

Such a table is read as far as its entries lead to instructions of the function. It ends before
what it cannot hold: an entry that leads elsewhere or amid an instruction, and anything whose
address the function takes, as that of the next table. Where instructions begin is certain if all
of the function can be decoded from its first byte to its last and everything reached agrees with
that: then no data lies in it. So an entry too many, should there be one, also leads to a true
instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Decoder
from msgspec import Struct

from lbtrace.machine.code import Code

if TYPE_CHECKING:
    from lbtrace.machine.x86_64.reached_code import ReachedCode

MASK = (1 << 64) - 1
AT_ONCE = 64
"""Entries that are read at once."""

SIZE = 4
"""Bytes of an entry: its distance from the table, with a sign."""

LARGEST = 1 << 15
"""Bytes of a part in which tables are ended; where the jumps of a larger one lead takes long to
find, once more of it is followed."""

LEAST = 2
"""Entries of a table, at least."""


class Sweep(Struct, frozen=True):
    """Where the instructions of some code begin, and the addresses that they take."""

    starts: frozenset[int]
    labels: frozenset[int]


class Entries(Struct, frozen=True):
    """Where the entries of a table lead; whether there may be more of them."""

    addresses: tuple[int, ...]
    more: bool


class TableEnds:
    """Finds where tables end of which ``code`` does not tell the length."""

    def __init__(self, code: ReachedCode) -> None:
        self._code = code
        self._swept: dict[tuple[int, int], Sweep | None] = {}
        self._agreeing: dict[int, Sweep | None] = {}
        self._labels: set[int] = set()

    def forget(self) -> None:
        """Forget what may have changed, as more code has become known."""
        self._agreeing.clear()

    def entries(self, start: int, most: int) -> Entries | None:
        """Return those of the table at ``start``, ``most`` at most, that give the distance from
        there; None where it is not certain where instructions begin."""
        code = self._code
        if start % SIZE or code.part(start) is not None:
            return None
        swept = filter(None, map(self._agreed, code.parts))
        self._labels = {label for sweep in swept for label in sweep.labels} - {start}
        found: list[int] = []
        stop: bool | None = None
        while stop is None and len(found) < most:
            at = start + SIZE * len(found)
            words = code.around.read(at, SIZE * min(AT_ONCE, most - len(found)))
            new, stop = self._fitting(start, at, words)
            found += new
            if len(new) < AT_ONCE:
                break
        return Entries(tuple(found), bool(stop)) if len(found) >= LEAST else None

    def _fitting(self, start: int, at: int, words: bytes) -> tuple[list[int], bool | None]:
        """The entries among ``words``, which are at ``at``; whether the first that seems to be none
        may be one, None where all are."""
        found: list[int] = []
        for offset in range(0, len(words) // SIZE * SIZE, SIZE):
            if not self._labels.isdisjoint(range(at + offset, at + offset + SIZE)):
                return found, False
            word = int.from_bytes(words[offset : offset + SIZE], "little", signed=True)
            target = start + word & MASK
            part = self._code.part(target)
            if part is None:
                return found, self._code.around.more(target) is not None
            sweep = self._agreed(part)
            if sweep is None:
                return found, True
            if target not in sweep.starts:
                return found, False
            found.append(target)
        return found, None

    def _agreed(self, part: Code) -> Sweep | None:
        """The instructions of ``part``, if all that were reached in it are among them."""
        if part.address not in self._agreeing:
            sweep = self._sweep(part)
            if sweep is not None:
                end = part.address + len(part.code)
                strange = set(self._code.instructions) - sweep.starts
                if any(part.address <= ip < end for ip in strange):
                    sweep = None
            self._agreeing[part.address] = sweep
        return self._agreeing[part.address]

    def _sweep(self, part: Code) -> Sweep | None:
        key = part.address, len(part.code)
        if key not in self._swept:
            self._swept[key] = sweep(part)
        return self._swept[key]


def sweep(part: Code) -> Sweep | None:
    """Decode ``part`` from its first byte to its last; None where data may lie in it: what is no
    instruction, or what others read or take the address of; or where it is too large."""
    if len(part.code) > LARGEST:
        return None
    end = part.address + len(part.code)
    starts: list[int] = []
    labels: set[int] = set()
    last = part.address
    for instruction in Decoder(64, part.code, ip=part.address):
        if instruction.is_invalid:
            return None
        starts.append(instruction.ip)
        last = instruction.next_ip
        if instruction.is_ip_rel_memory_operand:
            label = instruction.memory_displacement
            if part.address < label < end:
                return None
            labels.add(label)
    return Sweep(frozenset(starts), frozenset(labels)) if last == end else None
