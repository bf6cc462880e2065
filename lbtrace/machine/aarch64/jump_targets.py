"""Finds where computed jumps of arm64 functions lead: through tables, or to constants.

Compilers load an entry of one, two or four bytes, add it, mostly times four, to
the address of a label or of the table, and jump there; or they load an address.
The answers are found by looking backward, as in `lbtrace.machine.x86_64.jump_targets`. Encodings:
Arm Architecture Reference Manual (DDI 0487), C4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbtrace.machine.aarch64.instructions import condition, is_call, signed, written

if TYPE_CHECKING:
    from lbtrace.machine.aarch64.reached_code import ReachedCode

STEPS = 300
"""Instructions that are looked at for one register, at most."""

ENTRIES = 1 << 14
"""Entries of one table, at most."""

KEPT = range(19, 30)
"""Registers that calls leave alone: AAPCS64, 6.1.1."""

HI, LS, CS, CC = 8, 9, 2, 3
"""Conditions: unsigned higher, lower or same, higher or same, lower (C1.2.4)."""


class Leads(NamedTuple):
    """The ``addresses`` to which a jump leads; with ``inside`` it chooses one of several
    places in the function, through ``tables``. ``open`` says that it may lead elsewhere."""

    addresses: tuple[int, ...]
    tables: tuple[range, ...] = ()
    inside: bool = False
    open: bool = False


class Entry(NamedTuple):
    """A load of an entry: the table's register and the index's, and the entry's size."""

    table: int
    by: int
    size: int
    widened: bool
    scaled: bool


class Targets:
    """Finds where computed jumps of the code in ``code`` lead."""

    def __init__(self, code: ReachedCode) -> None:
        self._code = code
        self._found: dict[tuple[int, int], set[int | None]] = {}

    def forget(self) -> None:
        """Forget what may have changed, as more code has become known."""
        self._found.clear()

    def of(self, at: int) -> Leads | None:
        """Return where the jump at ``at`` leads; None where that is unknown."""
        register = self._code.instructions[at] >> 5 & 31
        constant = self._constant(register, at)
        if constant is not None:
            return Leads((constant,))
        writer = self._writer(register, at)
        if writer is None:
            return None
        word = self._code.instructions[writer]
        entry = _entry(word)
        if entry is not None and entry.size == 8:
            return self._words(entry, writer)
        added = _added(word)
        if added is None:
            return None
        left, right, extend, shift = added
        found = self._sum(left, right, extend, shift, writer)
        if found is None and shift == 0 and extend == "":
            found = self._sum(right, left, extend, shift, writer)
        return found

    def is_sum(self, at: int) -> bool:
        """Return whether the target of the jump at ``at`` is a sum: it is that of a ``switch``."""
        writer = self._writer(self._code.instructions[at] >> 5 & 31, at)
        return writer is not None and _added(self._code.instructions[writer]) is not None

    def _sum(self, left: int, right: int, extend: str, shift: int, at: int) -> Leads | None:
        base = self._constant(left, at)
        loader = self._writer(right, at)
        entry = _entry(self._code.instructions[loader]) if loader is not None else None
        if base is None or loader is None or entry is None:
            return None
        start = self._constant(entry.table, loader)
        highest = self._highest(entry.by, loader)
        if start is None or highest is None or not entry.scaled:
            return None
        size = entry.size * (highest + 1)
        data = self._code.around.read(start, size)
        if len(data) < size:
            return None
        widened = entry.widened or extend == f"s{entry.size}"
        addresses = tuple(
            base + (int.from_bytes(data[n : n + entry.size], "little", signed=widened) << shift)
            for n in range(0, size, entry.size)
        )
        return Leads(addresses, (range(start, start + size),), inside=True)

    def _words(self, entry: Entry, at: int) -> Leads | None:
        """The targets in a table of addresses."""
        start = self._constant(entry.table, at)
        if start is None or not entry.scaled:
            return None
        highest = self._highest(entry.by, at)
        found: list[int] = []
        for number in range(ENTRIES if highest is None else highest + 1):
            word = self._code.around.word(start + 8 * number)
            if not word or not (self._code.part(word) or self._code.knows(word)):
                if highest is not None:
                    return None
                break
            found.append(word)
        if not found:
            return None
        table = range(start, start + 8 * len(found))
        return Leads(tuple(found), (table,), inside=True, open=highest is None)

    def _writers(self, register: int, at: int) -> set[int | None]:
        """The instructions that may have written ``register`` last before ``at``."""
        found = self._found.get((register, at))
        if found is None:
            found = self._found[register, at] = self._last_writers(register, at)
        return found

    def _last_writers(self, register: int, at: int) -> set[int | None]:
        found: set[int | None] = set()
        seen: set[int] = set()
        ways = [at]
        landed = of_calls = False
        while ways or (landed and not found):
            if ways:
                here = ways.pop()
                last = self._code.before.get(here)
                leading = [*self._code.sources.get(here, ()), *([] if last is None else [last])]
                # It holds at a landing pad what it held at a call, as the unwinder restores it.
                carried = here in self._code.landed and register in KEPT
                landed |= carried
                # What its caller left in a register that it restores is nothing that it reads.
                if not of_calls and (here == self._code.start or not (leading or carried)):
                    return {None}
            else:
                leading, landed, of_calls = self._calls(), False, True
            if len(seen) > STEPS:
                return {None}
            for source in leading:
                if source in seen:
                    continue
                seen.add(source)
                if register in written(self._code.instructions[source]):
                    found.add(source)
                else:
                    ways.append(source)
        return found or {None}

    def _calls(self) -> list[int]:
        return [at for at, word in self._code.instructions.items() if is_call(word)]

    def _writer(self, register: int, at: int) -> int | None:
        writers = self._writers(register, at)
        return next(iter(writers)) if len(writers) == 1 else None

    def _constant(self, register: int, at: int, depth: int = 0) -> int | None:
        """What ``register`` holds before ``at``, if it is always the same."""
        writers = self._writers(register, at)
        if None in writers or depth > 6 or not 0 < len(writers) <= 16:
            return None
        values = {self._made(w, depth) for w in writers if w is not None}
        return values.pop() if len(values) == 1 else None

    def _made(self, at: int, depth: int) -> int | None:  # noqa: PLR0911 - a return for each case
        """The constant that the instruction at ``at`` makes."""
        word = self._code.instructions[at]
        if word & 0x1F000000 == 0x10000000:  # adr, adrp: C4.1.93
            distance = signed(word, 5, 19) + (word >> 29 & 3)
            return (at & ~0xFFF) + (distance << 12) if word >> 31 else at + distance
        if word & 0xFF800000 == 0x91000000:  # add of an immediate
            base = self._constant(word >> 5 & 31, at, depth + 1)
            more = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
            return None if base is None else base + more
        if word & 0xFFE0FFE0 == 0xAA0003E0:  # mov of a register
            return self._constant(word >> 16 & 31, at, depth + 1)
        if word & 0xFFC00000 == 0xF9400000:  # ldr of a word, as from the GOT
            base = self._constant(word >> 5 & 31, at, depth + 1)
            word_at = None if base is None else base + 8 * (word >> 10 & 0xFFF)
            return None if word_at is None else self._code.around.word(word_at)
        if word & 0xFF800000 == 0xD2800000:  # movz
            return (word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3)
        if word & 0xFF800000 == 0xF2800000:  # movk
            base = self._constant(word & 31, at, depth + 1)
            shift = 16 * (word >> 21 & 3)
            if base is None:
                return None
            return base & ~(0xFFFF << shift) | (word >> 5 & 0xFFFF) << shift
        return None

    def _highest(self, register: int, at: int) -> int | None:
        """The highest value of an index before ``at``, by the comparison before it."""
        more = 0
        for _ in range(STEPS):
            last = self._code.before.get(at)
            leading = [*self._code.sources.get(at, ()), *([] if last is None else [last])]
            if len(leading) != 1:
                return None
            source, jumped = leading[0], last is None
            word = self._code.instructions[source]
            if condition(word) is not None:
                found = self._compared(register, source, jumped)
                if found is not None:
                    return found + more
            if register in written(word):
                if word & 0x7FE0FFE0 == 0x2A0003E0:  # mov of a register
                    register = word >> 16 & 31
                elif word & 0x7F000000 in (0x11000000, 0x51000000) and not word >> 22 & 1:
                    amount = word >> 10 & 0xFFF
                    more += -amount if word >> 30 & 1 else amount
                    register = word >> 5 & 31
                elif word & 0x7FBFFC00 in (0x53001C00, 0x53003C00):  # uxtb, uxth
                    register = word >> 5 & 31
                else:
                    return None
            at = source
        return None

    def _compared(self, register: int, at: int, jumped: bool) -> int | None:
        """The bound that the comparison before the conditional jump at ``at`` sets."""
        code = condition(self._code.instructions[at])
        bounds = {(HI, False): 0, (LS, True): 0, (CS, False): -1, (CC, True): -1}
        if code is None or (code, jumped) not in bounds:
            return None
        for _ in range(6):
            last = self._code.before.get(at)
            if last is None or self._code.sources.get(at):
                return None
            word = self._code.instructions[last]
            if word & 0x7F80001F == 0x7100001F:  # cmp with an immediate
                same = word >> 5 & 31 == register or self._are_same(word >> 5 & 31, register, last)
                number = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
                return number + bounds[code, jumped] if same else None
            if word & 0x7FE0FFE0 == 0x2A0003E0 and word & 31 == register:
                register = word >> 16 & 31
            elif register in written(word) or is_call(word):
                return None
            at = last
        return None

    def _are_same(self, one: int, other: int, at: int) -> bool:
        """Whether ``other`` was copied from ``one`` and neither has changed since."""
        writer = self._writer(other, at)
        if writer is None:
            return False
        word = self._code.instructions[writer]
        copied = word & 0x7FE0FFE0 == 0x2A0003E0 and word >> 16 & 31 == one
        return copied and self._writers(one, at) == self._writers(one, writer)


def _entry(word: int) -> Entry | None:
    """A load at the sum of two registers: C4.1.94, LDR (register)."""
    if word & 0x3F200C00 != 0x38200800 or not word >> 22 & 3:
        return None
    size = 1 << (word >> 30)
    option, shifted = word >> 13 & 7, word >> 12 & 1
    if option not in (2, 3, 6, 7):
        return None
    scaled = bool(shifted) or size == 1
    return Entry(word >> 5 & 31, word >> 16 & 31, size, bool(word >> 23 & 1), scaled)


def _added(word: int) -> tuple[int, int, str, int] | None:
    """The registers that an instruction adds, how the second is extended and shifted."""
    left, right = word >> 5 & 31, word >> 16 & 31
    if word & 0xFFE00000 == 0x8B200000:  # extended register
        extends = {4: "s1", 5: "s2", 6: "s4"}
        return left, right, extends.get(word >> 13 & 7, "u"), word >> 10 & 7
    if word & 0xFFE00000 == 0x8B000000:  # shifted left
        return left, right, "", word >> 10 & 63
    return None
