"""Lines of calls that native code writes (lbtrace/native/lines.h): a sink says by its `LineStyle`
what they are made of.

A million calls are written in a second so. What only Python can write, strings and records, it
writes into the lines: the arguments or the result of a call as one text.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from lbtrace.calls._stretches import ffi, lib
from lbtrace.calls.decoders import INSTRUCTION_POINTERS, is_plain
from lbtrace.calls.payload import lies_in_memory
from lbtrace.calls.probe_decoding import ProbeDecoders
from lbtrace.calls.probe_pairs import ProbePairs
from lbtrace.calls.stretches import Stretch
from lbtrace.model import Argument, Datum, Fetch, Plan, Probe, Value
from lbtrace.sinks.arrays import GrowingArray, TextList, encode
from lbtrace.sinks.parts import NUMBERS, Marked, NotNative, Part, Sampler, Spelling, spell, split
from lbtrace.values.base import Type
from lbtrace.values.datum import FAULT

REMEMBERED = 1 << 14
"""Texts that are kept because the same values may come again."""


class Piece(NamedTuple):
    """A ``struct lbt_piece``."""

    kind: int
    text: str = ""
    slot: int = 0
    size: int = 0
    flags: int = 0
    skip: int = 0


Pieces: TypeAlias = Sequence["Piece | str"]

DURATION, PID, TID, DEPTH = (
    Piece(lib.LBT_DURATION),
    Piece(lib.LBT_PID),
    Piece(lib.LBT_TID),
    Piece(lib.LBT_DEPTH),
)
START, ELAPSED = Piece(lib.LBT_START), Piece(lib.LBT_ELAPSED)
START_MICRO, END_MICRO = Piece(lib.LBT_START_MICRO), Piece(lib.LBT_END_MICRO)
LANE_PREFIX, SEPARATOR = Piece(lib.LBT_LANE_PREFIX), Piece(lib.LBT_SEPARATOR)
LEADS_TO = Piece(lib.LBT_LEADS_TO)
FIT, FITTED = Piece(lib.LBT_FIT), Piece(lib.LBT_FITTED)
OPENING, CLOSING = Piece(lib.LBT_INDENT), Piece(lib.LBT_INDENT, slot=1)
"""What lbtrace/native/lines.h says of each; `OPENING` and `CLOSING` are the two indentations of
`LineStyle.indents`."""


def lane_column(letter: str) -> Piece:
    """Return the thread or, after a ``letter``, the goroutine."""
    return Piece(lib.LBT_LANE_COLUMN, letter)


def lane_number(first: int) -> Piece:
    """Return the thread or, counted from ``first`` on, the goroutine."""
    return Piece(lib.LBT_LANE_NUMBER, skip=first)


def goroutine(before: str) -> Piece:
    """Return the goroutine after the text ``before``, if there is one."""
    return Piece(lib.LBT_GOROUTINE, before)


class Lines(NamedTuple):
    """The lines of calls that a probe opens: ``entry`` at an entry (where they are
    ``delayed``, when something else follows it), ``leaf`` at a return right after it, ``returned``
    at any other, and the same where a call ends by a jump to another function."""

    entry: Pieces
    leaf: Pieces
    returned: Pieces
    tail_leaf: Pieces = ()
    tail_returned: Pieces = ()


class LineStyle(Protocol):
    """What the lines of a format are made of. Texts are those that the sink writes call by call."""

    delayed: bool
    quotes_addresses: bool
    quotes_large: bool
    """Whether integers that a double does not hold are in quotation marks."""
    nests: bool
    """Whether a value that is a part of another is written as by itself."""
    columns: int
    """That a line between `FIT` and `FITTED` may have."""

    def lines(self, number: int, arguments: Pieces, result: Pieces) -> Lines:
        """Return the lines of calls that the probe of this number opens, from those of their
        arguments and their result."""

    def value(self, datum: Datum) -> str:
        """Return a value."""

    def around_arguments(
        self, number: int, names: Sequence[str]
    ) -> Iterable[tuple[Piece | str, Piece | str]]:
        """Return what stands before and after each of a probe's arguments."""

    def arguments(self, number: int, arguments: Sequence[Argument]) -> str:
        """Return all arguments of a call, with a NUL for each `SEPARATOR`."""

    def around_result(self, number: int) -> tuple[str, str]:
        """Return what stands before and after the result of a function that has one."""

    def result(self, number: int, datum: Datum) -> str:
        """Return the result of a call, with what stands around it."""

    def indents(self, depth: int) -> tuple[str, str]:
        """`OPENING` and `CLOSING` at a depth."""


class LineWriter:
    """Writes the lines of stretches in a style."""

    def __init__(self, plan: Plan, style: LineStyle) -> None:
        self._plan = plan
        self._style = style
        self._decoders = ProbeDecoders(plan)
        self._pairs = ProbePairs(plan)
        self._remembers = not any(_locates(probe) for probe in plan.probes)
        self._remembered: dict[tuple[int, bytes], bytes] = {}
        self._written: dict[int, Callable[[Stretch, int], str]] = {}
        self._known = set[int]()
        self._closing = defaultdict[int, list[int]](list)
        for number in range(len(plan.probes)):
            if self._pairs.returns(number) or plan.probes[number].goes_on:
                self._closing[self._pairs.entry_of(number)].append(number)
        self._format = ffi.new("struct lbt_line_format *")
        self._format.columns, self._format.delayed = style.columns, style.delayed
        self._templates = ffi.new("struct lbt_line_templates[]", len(plan.probes))
        self._probe_parts = ffi.new("struct lbt_probe_parts[]", len(plan.probes))
        self._format.parts.probes = self._probe_parts
        self._parts = GrowingArray("struct lbt_part[]")
        self._names = GrowingArray("struct lbt_name[]")
        self._spelled: dict[Type, Spelling] = {}
        self._named: dict[Spelling, int] = {}
        self._format.templates = self._templates
        self._leads_to = TextList([encode(probe.leads_to) for probe in plan.probes])
        self._format.leads_to = self._leads_to.native[0]
        self._pieces = GrowingArray("struct lbt_piece[]")
        self._texts = GrowingArray("char[]")
        self._indents: list[tuple[str, str]] = []
        self._output = ffi.gc(ffi.new("struct lbt_output *"), lib.lbt_free_output)

    def write(self, stretch: Stretch, *, prefixed: bool = False) -> tuple[str, int]:
        """Return the lines of a stretch, and how many they are."""
        self._prepare(stretch)
        self._indent(int(stretch.native.deepest))
        rows, earlier = self._rows(stretch), self._earlier(stretch)
        self._format.prefixed = prefixed
        arguments = (self._format, stretch.native, stretch.count, rows, earlier, self._output)
        if lib.lbt_write_lines(*arguments):
            raise MemoryError
        written = ffi.buffer(self._output.bytes, self._output.size) if self._output.size else b""
        return str(written, "utf-8", "surrogatepass"), self._output.lines

    def _prepare(self, stretch: Stretch) -> None:
        """Make the templates of the probes that a stretch is the first to have."""
        used = set(stretch.probes())
        for each in stretch.lanes:
            used.update([call.probe for call in each.before])
        for number in used - self._known:
            opening = number if self._pairs.opens(number) else self._pairs.entry_of(number)
            if self._pairs.opens(opening) and opening not in self._known:
                self._templates[opening] = self._make_templates(opening)
            self._known |= {number, opening}
        parts = self._format.parts
        self._format.pieces = self._pieces.native
        self._format.texts = parts.texts = self._texts.native
        parts.parts, parts.names = self._parts.native, self._names.native

    def _indent(self, deepest: int) -> None:
        if deepest < len(self._indents):
            return
        wanted = range(len(self._indents), 2 * deepest + 1)
        self._indents += [self._style.indents(depth) for depth in wanted]
        self._held_indents = [
            TextList(map(encode, each)) for each in zip(*self._indents, strict=True)
        ]
        for number, texts in enumerate(self._held_indents):
            self._format.indents[number] = texts.native[0]

    def _rows(self, stretch: Stretch) -> Any:
        """The texts of rows that only Python can write."""
        if not self._written:
            return _NOTHING.native
        parts = ffi.addressof(self._format, "parts")
        self._held_blobs = ffi.from_buffer("char[]", stretch.blobs)
        parts.blobs, parts.blob_size = self._held_blobs, len(self._held_blobs)
        rows = ffi.new("uint32_t[]", stretch.count)
        arguments = (parts, stretch.native, stretch.count, not self._remembers, rows)
        found = lib.lbt_rows_for_python(*arguments)
        if not found:
            return _NOTHING.native
        texts, probes = [b""] * stretch.count, stretch.probes()
        for row in rows[0:found]:
            texts[row] = self._text(stretch, row, probes[row])
        self._held_rows = TextList(texts)
        return self._held_rows.native

    def _text(self, stretch: Stretch, row: int, number: int) -> bytes:
        if not self._remembers:
            return encode(self._written[number](stretch, row))
        key = number, stretch.values(row)
        text = self._remembered.get(key)
        if text is None:
            if len(self._remembered) == REMEMBERED:
                self._remembered.clear()
            text = self._remembered[key] = encode(self._written[number](stretch, row))
        return text

    def _earlier(self, stretch: Stretch) -> Any:
        """The arguments of calls that were open before, as far as a line may be about them."""
        texts: list[bytes] = []
        for lane in stretch.lanes:
            texts += [b""] * (lane.base + max(lane.native.kept - 1, 0) - len(texts))
            for call in lane.before[len(texts) - lane.base :]:
                texts.append(encode(self._style.arguments(call.probe, call.args)))
        self._held_earlier = TextList(texts)
        return self._held_earlier.native

    def _make_templates(self, number: int) -> tuple[tuple[int, int], ...]:
        """A ``struct lbt_line_templates`` of a probe that opens calls."""
        plan = self._plan
        probe = plan.probes[number]
        function = plan.functions[probe.function]
        parameters, result = function.parameters, function.result
        native = not _locates(probe) and _are_native(parameters, probe)
        if native:
            arguments = self._arguments(number, parameters)
        else:
            self._written[number] = self._argument_writer(number)
            write = functools.partial(self._style.arguments, number)
            sampled = self._sample([number], parameters, write)
            arguments = [Piece(lib.LBT_ARGUMENTS, skip=len(sampled)), *sampled]
        has_result = result is not None and result.type.has_values
        returned = self._result(plan, number, result if has_result else None)
        lines = self._style.lines(number, arguments, returned)
        return tuple([self._add(pieces) for pieces in lines])

    def _arguments(self, number: int, parameters: Sequence[Value]) -> list[Piece | str]:
        pieces: list[Piece | str] = []
        names = [value.name for value in parameters]
        around = self._style.around_arguments(number, names)
        for (before, after), value in zip(around, parameters, strict=True):
            pieces += [before, self._number(value, 0), after]
        return [Piece(lib.LBT_ARGUMENTS, skip=len(pieces)), *pieces] if pieces else []

    def _result(self, plan: Plan, number: int, result: Value | None) -> list[Piece | str]:
        if result is None:
            return [self._style.result(number, None)]
        closing = self._closing[number]
        if not all(_are_native((result,), plan.probes[each]) for each in closing):
            for each in closing:
                self._written[each] = self._result_writer(each, number)

            def write(samples: Sequence[Argument]) -> str:
                return self._style.result(number, samples[0].value)

            sampled = self._sample(closing, (result,), write, lib.LBT_OF_RETURN)
            return [Piece(lib.LBT_RESULT, skip=len(sampled)), *sampled]
        before, after = self._style.around_result(number)
        return [before, self._number(result, lib.LBT_OF_RETURN), after]

    def _number(self, value: Value, flags: int) -> Piece | str:
        style = self._style
        if value.slot < 0:
            return style.value(value.type.absent(value.reason))
        form = value.type.native_form()
        flags |= self._flags(form, signed=value.type.signed)
        if form == "address" and style.quotes_addresses:
            flags |= lib.LBT_QUOTED
        return Piece(lib.LBT_NUMBER, style.value(FAULT), value.slot, value.type.size, flags)

    def _flags(self, form: str, *, signed: bool) -> int:
        """How a number is written that is a value by itself."""
        style = self._style
        if form == "address":
            return int(lib.LBT_HEXADECIMAL)
        flags = lib.LBT_SIGNED if signed else 0
        flags |= lib.LBT_QUOTED_IF_LARGE if style.quotes_large else 0
        if form == "word":
            flags |= lib.LBT_WORD | (lib.LBT_QUOTED if style.quotes_addresses else 0)
        return int(flags)

    def _sample(
        self,
        probes: Sequence[int],
        values: Sequence[Value],
        write: Callable[[Sequence[Argument]], str],
        flags: int = 0,
    ) -> list[Piece | str]:
        """What native code writes of values that these probes fetch alike, where it can read all
        parts; nothing where it never can."""
        how = self._plan.probes[probes[0]].fetches
        others = {_layout(self._plan.probes[number].fetches) for number in probes} - {_layout(how)}
        sampler = Sampler(how, self._spell, nests=self._style.nests)
        try:
            if others or any(_locates(self._plan.probes[number]) for number in probes):
                raise NotNative
            text = write([Argument(value.name, sampler.sample(value)) for value in values])
        except NotNative:
            for number in probes:
                self._probe_parts[number].how = lib.LBT_PYTHON
            return []
        first = self._parts.add([self._add_part(part) for part in sampler.parts])
        for number in probes:
            own = first, len(sampler.parts), *sampler.layout, lib.LBT_NATIVE_IF_READ
            self._probe_parts[number] = own

        def put(marked: Marked) -> Piece:
            own = 0
            if marked.alone or marked.form == "address":
                own = self._flags(marked.form, signed=marked.part.is_signed)
            elif marked.part.is_signed:
                own = lib.LBT_SIGNED
            return Piece(lib.LBT_PART, flags=flags | own, skip=first + marked.number)

        return split(text, sampler.marks, put, SEPARATOR)

    def _add_part(self, part: Part) -> tuple[int, ...]:
        """A ``struct lbt_part``."""
        if part.names not in self._named:
            names = []
            for number, name in part.names:
                text = encode(name)
                names.append((number, self._texts.add(text), len(text)))
            self._named[part.names] = self._names.add(names)
        return (*part[:-1], self._named[part.names], len(part.names))

    def _spell(self, kind: Type) -> Spelling:
        if kind not in self._spelled:
            self._spelled[kind] = spell(kind, self._style.value)
        return self._spelled[kind]

    def _argument_writer(self, number: int) -> Callable[[Stretch, int], str]:
        write, decoder = self._style.arguments, self._decoders[number]
        return lambda stretch, row: write(number, stretch.arguments(decoder, row))

    def _result_writer(self, closing: int, number: int) -> Callable[[Stretch, int], str]:
        write, decoder = self._style.result, self._decoders[closing]
        return lambda stretch, row: write(number, stretch.result(decoder, row))

    def _add(self, pieces: Pieces) -> tuple[int, int]:
        """A ``struct lbt_template``."""
        added = list[tuple[int, ...]]()
        for piece in pieces:
            whole = Piece(lib.LBT_TEXT, piece) if isinstance(piece, str) else piece
            text = encode(whole.text)
            how = whole.kind, whole.slot, whole.size, whole.flags, whole.skip
            added.append((*how, self._texts.add(text), len(text)))
        return self._pieces.add(added), len(pieces)


def _layout(fetches: tuple[Fetch, ...]) -> tuple[bool, ...]:
    """Which of the values that are fetched lie in memory."""
    return tuple([lies_in_memory(slot, fetches) for slot in range(len(fetches))])


def _locates(probe: Probe) -> bool:
    """Whether its events show where the file is mapped, which names functions later."""
    return any(fetch.register in INSTRUCTION_POINTERS for fetch in probe.fetches)


def _are_native(values: tuple[Value, ...], probe: Probe) -> bool:
    """Whether native code can write these values of a probe."""
    return is_plain(values, probe.fetches) and all(
        value.slot < 0 or (value.type.native_form() in NUMBERS and value.type.is_sound())
        for value in values
    )


_NOTHING = TextList(())
