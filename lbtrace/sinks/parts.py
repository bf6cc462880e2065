"""What native code writes of values (lbtrace/native/parts.h): the parts that differ from call to
call, among text that does not.

What a format writes is found out from a sample: values whose parts are marks, which are found in
its text again. So formats need not know of this, and no kind of value of formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from lbtrace.calls._fast_path import lib
from lbtrace.calls.payload import lies_in_memory
from lbtrace.model import Datum, Fetch, Value
from lbtrace.model.wire_limits import VALUES
from lbtrace.values.base import MARK, TABLED, Fetched, Reader, Type
from lbtrace.values.pointer import symbol_mark

MOST_NAMES = 1 << 12
"""Of an enumeration."""

WORD = 8
"""Bytes."""

MARKS = re.compile(rf"({MARK}\d{{12}}|0x{MARK}[0-9a-f]{{8}}|{MARK}\d{{5}}\.5|lbt_mark_\d{{4}})")
"""What `Type.mark` makes."""

NUMBERS = frozenset({"signed", "unsigned", "address", "word"})
"""Native forms."""

FORMS = {
    **dict.fromkeys(NUMBERS, lib.LBT_PART_NUMBER),
    "real": lib.LBT_PART_REAL,
    "text": lib.LBT_PART_TEXT,
    "characters": lib.LBT_PART_CHARACTERS,
    **dict.fromkeys(("name", "truth", "character"), lib.LBT_PART_NAME),
    "symbol": lib.LBT_PART_SYMBOL,
}


NAMED = frozenset({"name", "truth", "character"})
"""Native forms of numbers that are written by a table."""

Spelling: TypeAlias = tuple[tuple[int, str], ...]
"""Numbers as they are fetched, in order, and how they are written."""


class NotNative(Exception):
    """Only Python can write some part of a value."""


class Part(NamedTuple):
    """A ``struct lbt_part`` before its names, and these."""

    form: int
    slot: int
    in_memory: bool
    is_signed: bool
    bit_offset: int
    bit_size: int
    size: int
    offset: int
    names: Spelling = ()


class Marked(NamedTuple):
    """A part, its number, its native form, and whether it is the whole of a value."""

    part: Part
    number: int
    form: str
    alone: bool


class Sampler:
    """Makes samples of the values that ``fetches`` get. ``parts`` are theirs, and ``marks`` says
    which part each mark stands for. ``spell`` returns how values of a type are written, by their
    numbers; inside of others they are written so, too, where ``nests``.

    It stands where `lbtrace.values.base.Probe` does, so that values are composed as always.
    """

    names: Mapping[int, tuple[str, int]] = {}
    held: Mapping[int, Type] = {}

    def __init__(
        self, fetches: tuple[Fetch, ...], spell: Callable[[Type], Spelling], *, nests: bool
    ) -> None:
        self._fetches = fetches
        self._spell = spell
        self._nests = nests
        self._alone = True
        self.parts: list[Part] = []
        self.marks: dict[str, Marked] = {}

    @property
    def layout(self) -> tuple[int, int]:
        """``in_memory`` and ``beyond`` of a ``struct lbt_probe_parts``."""
        count = len(self._fetches)
        slots = [slot for slot in range(count) if lies_in_memory(slot, self._fetches)]
        return sum(1 << slot for slot in slots), max(0, count - VALUES)

    def sample(self, value: Value) -> Datum:
        """Return a sample. Raises `NotNative`."""
        self._alone = not value.members
        return self.reader(value)(Fetched((), {}, 0, 0))

    def reader(self, value: Value) -> Reader:
        """Return what "reads" a sample of a value, or of a part of one. Raises `NotNative`."""
        if value.members:
            if not value.type.is_composed_alike:
                raise NotNative
            first = len(self.parts)
            made = value.type.reader(value, self)
            if value.type.names_zero and self.parts[first].form == lib.LBT_PART_NUMBER:
                self.parts[first] = self.parts[first]._replace(form=lib.LBT_PART_NONZERO)
            return made
        if value.slot < 0:
            return value.type.reader(value, self)
        mark = self._mark(value)
        return lambda fetched: mark

    def is_piece(self, slot: int) -> bool:
        """See `lbtrace.values.base.Probe`."""
        return lies_in_memory(slot, self._fetches)

    def symbol(self, pid: int, address: int) -> str:
        """See `lbtrace.values.base.Probe`."""
        raise NotNative

    def class_reader(self, table: Value) -> Callable[[Fetched], str]:
        """See `lbtrace.values.base.Probe`."""
        part = self._part(table, "address")._replace(form=lib.LBT_PART_CLASS)
        name = symbol_mark(self._add(part, "address"))
        self.marks[name] = Marked(part, len(self.parts) - 1, "symbol", self._alone)
        return lambda fetched: name

    def _mark(self, value: Value) -> Datum:
        form = value.type.native_form()
        part = self._part(value, form)
        number = self._add(part, form)
        mark, datum = value.type.mark(number)
        self.marks[mark] = Marked(part, number, form, self._alone)
        return value.type.with_reason(datum, value.reason)

    def _add(self, part: Part, form: str) -> int:
        self._check(part, form)
        self.parts.append(part)
        return len(self.parts) - 1

    def _part(self, value: Value, form: str) -> Part:
        kind = value.type
        if form not in FORMS or not kind.is_sound() or value.slot >= self._slots:
            raise NotNative
        if form in NAMED and not (self._alone or self._nests):
            raise NotNative
        names = self._spell(kind) if form in NAMED else ()
        return Part(
            FORMS[form],
            value.slot,
            self.is_piece(value.slot),
            kind.signed,
            value.bit_offset,
            value.bit_size,
            kind.size or WORD,
            value.offset,
            names,
        )

    @property
    def _slots(self) -> int:
        return max(VALUES, len(self._fetches))

    def _check(self, part: Part, form: str) -> None:
        """Raise `NotNative` for what damaged captures may describe, and for numbers that native
        code does not hold."""
        if form in ("text", "characters"):
            fits = part.in_memory and not part.bit_size
        elif part.bit_size:
            fits = 0 < part.bit_offset + part.bit_size <= 8 * WORD and part.bit_offset >= 0
        else:
            fits = part.size <= WORD
        word = part.in_memory or 0 <= part.offset < WORD
        within = 0 <= part.offset < 1 << 31 and part.size < 1 << 31
        if not (fits and word and within) or (form == "word" and not self._alone):
            raise NotNative


def spell(kind: Type, write: Callable[[Datum], str]) -> Spelling:
    """Return how values of a type are written, those that a table has. Raises `NotNative`."""
    decode, constants = kind.decoder(), kind.constants()
    if kind.native_form() == "truth":
        return tuple([(number, write(decode(number))) for number in (0, 1)])
    if len(constants) > MOST_NAMES:
        raise NotNative
    mask = (1 << 8 * kind.size) - 1
    few = range(min(TABLED, mask + 1) if kind.native_form() == "name" else TABLED // 2)
    numbers = {*few, *(number & mask for number, _ in constants)}
    return tuple([(number, write(decode(number))) for number in sorted(numbers)])


def split(text: str, marks: Mapping[str, Marked], put: Callable[[Marked], Any]) -> list[Any]:
    """Return the text of a sample in pieces: what ``put`` makes of each mark, and what is
    between."""
    return [put(marks[each]) if each in marks else each for each in MARKS.split(text) if each]
