"""Lines of calls that native code writes (lbtrace/native/lines.h): a sink says what they are made
of, and writes samples of their values.

A million calls are written in a second so. What only Python can write, strings and records, it
writes into the lines: the arguments or the result of a call as one text.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from lbtrace.calls._fast_path import ffi, lib
from lbtrace.calls.decoders import instruction_pointer
from lbtrace.calls.fast_path import PLAIN, FastBatch
from lbtrace.calls.payload import lies_in_memory
from lbtrace.calls.probe_decoding import ProbeDecoders
from lbtrace.calls.probe_pairs import ProbePairs
from lbtrace.model import Argument, Fetch, Plan, Value
from lbtrace.sinks.arrays import GrowingArray, TextList, encode
from lbtrace.sinks.line_sink import LineSink, Piece, Pieces
from lbtrace.sinks.parts import Marked, NotNative, Part, Sampler, Spelling, spell, split
from lbtrace.values.base import Type
from lbtrace.values.pointer import TABLE_OF

REMEMBERED = 1 << 14
"""Texts that are kept because the same values may come again."""


DURATION, LANE_COLUMN = Piece(lib.LBT_DURATION), Piece(lib.LBT_LANE_COLUMN)
PID, TID, DEPTH = Piece(lib.LBT_PID), Piece(lib.LBT_TID), Piece(lib.LBT_DEPTH)
START, ELAPSED = Piece(lib.LBT_START), Piece(lib.LBT_ELAPSED)
INDENT, INDENT_OF_END = Piece(lib.LBT_INDENT), Piece(lib.LBT_INDENT, skip=1)
START_MICRO, ELAPSED_MICRO = Piece(lib.LBT_START_MICRO), Piece(lib.LBT_ELAPSED_MICRO)
LEADS_TO = Piece(lib.LBT_LEADS_TO)
TIME_OF_START, TIME_OF_END = Piece(lib.LBT_TIME_OF_START), Piece(lib.LBT_TIME_OF_END)
"""What lbtrace/native/lines.h says of each."""


TIMES = {
    "clock": lib.LBT_TIME_CLOCK,
    "relative": lib.LBT_TIME_RELATIVE,
    "delta": lib.LBT_TIME_DELTA,
}
"""The kinds of `lbtrace.sinks.times.Times`."""


def lane_number(first: int) -> Piece:
    """Return the thread or, counted from ``first`` on, the goroutine."""
    return Piece(lib.LBT_LANE_NUMBER, skip=first)


def goroutine(before: str) -> Piece:
    """Return the goroutine after the text ``before``, if there is one."""
    return Piece(lib.LBT_GOROUTINE, before)


class LineWriter:
    """Writes the lines of fast batches as a sink does."""

    def __init__(self, plan: Plan, sink: LineSink) -> None:
        self._plan = plan
        self._sink = sink
        self._decoders = ProbeDecoders(plan)
        self._pairs = ProbePairs(plan)
        self._pointers = [instruction_pointer(probe.fetches) for probe in plan.probes]
        self._names_addresses = max(self._pointers, default=-1) >= 0
        self._known_names: dict[tuple[int, int], str] = {}
        self._named_count = 0
        self._symbol_texts: dict[bytes, int] = {}
        self._remembered: dict[tuple[int, int, bytes], bytes] = {}
        self._written: dict[int, Callable[[FastBatch, int], str]] = {}
        self._known = set[int]()
        self._closing = defaultdict[int, list[int]](list)
        for number in range(len(plan.probes)):
            if self._pairs.returns(number) or plan.probes[number].goes_on:
                self._closing[self._pairs.entry_of(number)].append(number)
        self._format = ffi.new("struct lbt_line_format *")
        self._format.delayed = sink.delayed
        if sink.times:
            self._format.time = TIMES[sink.times.kind]
            self._format.time_shift = sink.times.shift
        self._templates = ffi.new("struct lbt_line_templates[]", len(plan.probes))
        self._probe_parts = ffi.new("struct lbt_probe_parts[]", len(plan.probes))
        for number, probe in enumerate(plan.probes):
            self._probe_parts[number].pointer = self._pointers[number] & lib.LBT_NO_POINTER
            self._probe_parts[number].binary = max(0, probe.binary)
            self._probe_parts[number].address = probe.site.address
        self._format.parts.probes = self._probe_parts
        self._parts = GrowingArray("struct lbt_part[]")
        self._names = GrowingArray("struct lbt_name[]")
        self._spelled: dict[Type, Spelling] = {}
        self._named: dict[Spelling, int] = {}
        self._format.templates = self._templates
        self._held_blobs: Any = None
        self._leads_to = TextList([encode(probe.leads_to) for probe in plan.probes])
        self._format.leads_to = self._leads_to.native[0]
        self._pieces = GrowingArray("struct lbt_piece[]")
        self._texts = GrowingArray("char[]")
        self._indents: list[tuple[str, str]] = []
        self._output = ffi.gc(ffi.new("struct lbt_output *"), lib.lbt_free_output)

    def write(self, fast_batch: FastBatch) -> tuple[str, int]:
        """Return the lines of a fast batch, and how many they are."""
        self._prepare(fast_batch)
        self._indent(int(fast_batch.native.deepest))
        rows, earlier = self._rows(fast_batch), self._earlier(fast_batch)
        arguments = (self._format, fast_batch.native, fast_batch.count, rows, earlier, self._output)
        times = self._sink.times
        self._output.previous = times.previous if times else 0
        if lib.lbt_write_lines(*arguments):
            raise MemoryError
        if times:
            times.previous = self._output.previous
        written = ffi.buffer(self._output.bytes, self._output.size) if self._output.size else b""
        self._held_blobs = None  # garbage collection must not find it in a cycle with its buffer
        return str(written, "utf-8", "surrogatepass"), self._output.lines

    def _prepare(self, fast_batch: FastBatch) -> None:
        """Make the templates of the probes that a fast batch is the first to have."""
        used = set(fast_batch.probes())
        for each in fast_batch.lanes:
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
        self._indents += map(self._sink.indents, wanted)
        self._held_indents = TextList([encode(each) for both in self._indents for each in both])
        self._format.indents = self._held_indents.native[0]

    def _rows(self, fast_batch: FastBatch) -> Any:
        """The texts of rows that only Python can write."""
        if not self._written:
            return _NOTHING.native
        parts = ffi.addressof(self._format, "parts")
        held = self._held_blobs = ffi.from_buffer("char[]", fast_batch.blobs)
        parts.blobs, parts.blob_size = held, len(held)
        if self._names_addresses:
            self._name_addresses()
        rows = ffi.new("uint32_t[]", fast_batch.count)
        found = lib.lbt_rows_for_python(parts, fast_batch.native, fast_batch.count, rows)
        if not found:
            return _NOTHING.native
        texts, probes = [b""] * fast_batch.count, fast_batch.probes()
        pids = fast_batch.pids() if self._names_addresses else probes
        for row in rows[0:found]:
            if probes[row] in self._written:
                texts[row] = self._text(fast_batch, row, probes[row], pids[row])
        self._held_rows = TextList(texts)
        return self._held_rows.native

    def _name_addresses(self) -> None:
        """Let native code know what is known of addresses."""
        namer, parts = self._decoders.namer, self._format.parts
        if namer.known is self._known_names and len(namer.known) == self._named_count:
            return
        self._known_names, self._named_count = namer.known, len(namer.known)
        symbols = []
        for (pid, address), name in sorted(namer.known.items()):
            form = lib.LBT_PART_CLASS if name.startswith(TABLE_OF) else lib.LBT_PART_SYMBOL
            if PLAIN.fullmatch(name):
                is_class = form == lib.LBT_PART_CLASS
                text = self._sink.class_name(name.removeprefix(TABLE_OF)) if is_class else name
                symbols.append((address, pid, *self._symbol_text(encode(text)), form))
        places = [
            (shift % (1 << 64), pid, binary)
            for pid, shifts in namer.shifts.items()
            for binary, shift in shifts.items()
        ]
        self._held_symbols = ffi.new("struct lbt_symbol[]", symbols)
        self._held_places = ffi.new("struct lbt_place[]", places)
        parts.symbols, parts.symbol_count = self._held_symbols, len(symbols)
        parts.places, parts.place_count = self._held_places, len(places)
        parts.texts = self._format.texts = self._texts.native

    def _symbol_text(self, text: bytes) -> tuple[int, int]:
        """Where a text is, and how long."""
        if text not in self._symbol_texts:
            self._symbol_texts[text] = self._texts.add(text)
        return self._symbol_texts[text], len(text)

    def _text(self, fast_batch: FastBatch, row: int, number: int, pid: int) -> bytes:
        if self._known_names is not self._decoders.namer.known:
            self._remembered.clear()
            self._known_names, self._named_count = self._decoders.namer.known, -1
        key = number, pid, fast_batch.values(row)
        text = self._remembered.get(key)
        if text is None:
            if len(self._remembered) == REMEMBERED:
                self._remembered.clear()
            text = self._remembered[key] = encode(self._written[number](fast_batch, row))
        return text

    def _earlier(self, fast_batch: FastBatch) -> Any:
        """The arguments of calls that were open before, as far as a line may be about them."""
        texts: list[bytes] = []
        for lane in fast_batch.lanes:
            texts += [b""] * (lane.base + max(lane.native.kept - 1, 0) - len(texts))
            for call in lane.before[len(texts) - lane.base :]:
                texts.append(encode(self._sink.arguments(call.probe, call.args)))
        self._held_earlier = TextList(texts)
        return self._held_earlier.native

    def _make_templates(self, number: int) -> tuple[tuple[int, int], ...]:
        """A ``struct lbt_line_templates`` of a probe that opens calls."""
        probe = self._plan.probes[number]
        function = self._plan.functions[probe.function]
        self._written[number] = self._argument_writer(number)
        write = functools.partial(self._sink.arguments, number)
        arguments = self._sample([number], function.parameters, write)
        lines = self._sink.lines(
            number,
            [Piece(lib.LBT_ARGUMENTS, skip=len(arguments)), *arguments],
            self._result(number, function.result),
        )
        return tuple([self._add(pieces) for pieces in lines])

    def _result(self, number: int, result: Value | None) -> list[Piece | str]:
        closing = self._closing[number]
        if result is None or not (result.type.has_values and closing):
            return [self._sink.result(number, None)]
        for each in closing:
            self._written[each] = self._result_writer(each, number)

        def write(samples: Sequence[Argument]) -> str:
            return self._sink.result(number, samples[0].value)

        sampled = self._sample(closing, (result,), write, lib.LBT_OF_RETURN)
        return [Piece(lib.LBT_RESULT, skip=len(sampled)), *sampled]

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
        sampler = Sampler(how, self._spell, nests=self._sink.nests)
        try:
            if others:
                raise NotNative
            text = write([Argument(value.name, sampler.sample(value)) for value in values])
        except NotNative:
            for number in probes:
                self._probe_parts[number].how = lib.LBT_PYTHON
            return []
        first = self._parts.add([self._add_part(part) for part in sampler.parts])
        for number in probes:
            own = self._probe_parts[number]
            own.first, own.count = first, len(sampler.parts)
            own.in_memory, own.beyond = sampler.layout
            own.how = lib.LBT_NATIVE_IF_READ

        def put(marked: Marked) -> Piece:
            own = flags | self._flags(marked)
            return Piece(lib.LBT_PART, flags=own, skip=first + marked.number)

        return split(text, sampler.marks, put)

    def _flags(self, marked: Marked) -> int:
        """How a number is written."""
        if marked.form == "address":
            return int(lib.LBT_HEXADECIMAL)
        flags = lib.LBT_SIGNED if marked.part.is_signed else 0
        if marked.alone and self._sink.quotes_large:
            flags |= lib.LBT_QUOTED_IF_LARGE
        if marked.form == "word":
            flags |= lib.LBT_WORD | (lib.LBT_QUOTED if self._sink.quotes_addresses else 0)
        return int(flags)

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
            self._spelled[kind] = spell(kind, self._sink.value)
        return self._spelled[kind]

    def _argument_writer(self, number: int) -> Callable[[FastBatch, int], str]:
        write, decoder = self._sink.arguments, self._decoders[number]
        return lambda fast_batch, row: write(number, fast_batch.arguments(decoder, row))

    def _result_writer(self, closing: int, number: int) -> Callable[[FastBatch, int], str]:
        write, decoder = self._sink.result, self._decoders[closing]
        return lambda fast_batch, row: write(number, fast_batch.result(decoder, row))

    def _add(self, pieces: Pieces) -> tuple[int, int]:
        """A ``struct lbt_template``."""
        added = list[tuple[int, ...]]()
        for piece in pieces:
            whole = Piece(lib.LBT_TEXT, piece) if isinstance(piece, str) else piece
            text = encode(whole.text)
            how = whole.kind, whole.flags, whole.skip
            added.append((*how, self._texts.add(text), len(text)))
        return self._pieces.add(added), len(pieces)


def _layout(fetches: tuple[Fetch, ...]) -> tuple[bool, ...]:
    """Which of the values that are fetched lie in memory."""
    return tuple([lies_in_memory(slot, fetches) for slot in range(len(fetches))])


_NOTHING = TextList(())
