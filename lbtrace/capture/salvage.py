"""Reads what is left of damaged captures.

Chunks whose checksum is wrong are left out; where their length is wrong too, the next
chunk is searched for. The parts of the plan are decoded separately: a function whose values cannot
be trusted is shown without them, events of a probe that cannot be read are left out. `Batch.gap`
marks where batches are missing.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any, TypeVar, get_args
from zlib import crc32

import msgspec
from msgspec.structs import replace

from lbtrace.capture.check import find_faults
from lbtrace.capture.growing import Growing
from lbtrace.capture.known_events import KnownEvents
from lbtrace.capture.layout import (
    ADDITION,
    AGGREGATES,
    CHUNK,
    DECODING_ERRORS,
    END,
    EVENTS,
    HEADER,
    LAST_OF_V3,
    LOSSES,
    PIECE,
    PLAN,
    VERSION,
    Buffer,
    decode_addition,
    decode_plan,
    is_possible,
)
from lbtrace.capture.long_texts import shorten
from lbtrace.capture.reading import RECORD, Capture
from lbtrace.capture.v3 import UNREADABLE, OldProbe, Upgrade
from lbtrace.elf.regular import Mapped
from lbtrace.errors import CaptureError
from lbtrace.model import (
    Aggregates,
    Batch,
    Binary,
    Function,
    GoLayout,
    Plan,
    Probe,
    Symbols,
    UnseenSwitches,
)
from lbtrace.probes import ROLES, STACK_ROLES
from lbtrace.values import convert

KNOWN = (PLAN, ADDITION, EVENTS, AGGREGATES, LOSSES, END)
"""Types of chunks that are searched for."""

EFFORT = 8
"""The search for chunks reads at most this many times the size of the file."""

LISTED = 8
"""At most this many functions and probes are named; the others are counted."""

T = TypeVar("T")


class SalvagedCapture(Capture):
    """A capture that is read as far as possible. ``left_out`` is complete when `batches` has come
    to its end."""

    def batches(self) -> Iterator[Batch | Aggregates]:
        """Yield the undamaged batches, in order, without the events that cannot be read."""
        missing, known = 0, KnownEvents(self.plan, self._unknown, doubtful=self._doubtful)
        for whole in super().batches():
            if isinstance(whole, Aggregates):
                yield whole
                continue
            batch = known.of(whole)
            batch.gap, missing = self._chunks_lost > missing, self._chunks_lost
            yield batch
        if self._chunks_lost:
            chunks = "1 chunk" if self._chunks_lost == 1 else f"{self._chunks_lost:,} chunks"
            self.left_out.append(f"{chunks} of {self._bytes_lost:,} bytes in all: damaged")
        if known.lost:
            self.left_out.append(f"{known.lost:,} events whose probe or kind cannot be read")

    def _rewind(self) -> None:
        super()._rewind()
        self._chunks_lost = self._bytes_lost = 0
        self._effort = EFFORT * self.size
        del self.left_out[self._left_out_of_plan :]

    def _read_plan(self) -> Plan:
        self._doubtful = False
        try:
            self._mapped = Mapped(self._file.fileno())  # ends in zeros, should it be cut short
        except ValueError:  # it is empty
            raise CaptureError(f"{self.path} is not a capture", RECORD) from None
        self.size = len(self._mapped)
        self._data = memoryview(self._mapped)
        self._chunks_lost = self._bytes_lost = 0
        self._effort = EFFORT * self.size
        self._unknown: set[int] = set()
        try:
            version = self._version_of(self._data)
        except CaptureError as error:
            if "version" in error.message:
                raise
            version = VERSION
            self.left_out.append("the header of the file: damaged")
        chunk = self._plan_chunk()
        if chunk is None:
            raise CaptureError(
                f"{self.path} has no plan, without which its events mean nothing", RECORD
            )
        plan = self._without_faults(self._with_additions(self._salvage_plan(chunk, version)))
        self._left_out_of_plan = len(self.left_out)
        return plan

    def _version_of(self, data: memoryview) -> int:
        self._file.seek(0)
        version = self._read_header()
        self.position = HEADER.size
        return version

    def _plan_chunk(self) -> memoryview | None:
        """The content of the plan's chunk, even if its checksum is wrong."""
        start = HEADER.size
        if bytes(self._data[start : start + 4]) == PLAN and start + CHUNK.size <= self.size:
            chunk = self._whole_chunk(start)
            if chunk is not None:
                self.position = start + CHUNK.size + len(chunk)
                return chunk
            self.left_out.append("the checksum of the plan is wrong: names and values may be too")
            self._doubtful = True
            length = CHUNK.unpack_from(self._data, start)[1]
            end = start + CHUNK.size + length
            if end > self.size or not self._is_chunk(end):
                end = self._find(start + 4)
            self.position = end
            return self._data[start + CHUNK.size : end]
        found = self._find(0, (PLAN,))
        chunk = self._whole_chunk(found) if found < self.size else None
        if chunk is not None:
            self.position = found + CHUNK.size + len(chunk)
        return chunk

    def _next(self) -> tuple[bytes, memoryview] | None:
        while self.position < self.size:
            start = self.position
            chunk = self._whole_chunk(start)
            if chunk is not None:
                self.position = start + CHUNK.size + len(chunk)
                return bytes(self._data[start : start + 4]), chunk
            if start + CHUNK.size <= self.size:
                end = start + CHUNK.size + CHUNK.unpack_from(self._data, start)[1]
                self.position = end if self._is_chunk(end) else self._find(start + 1)
            else:
                self.position = self.size
            self._chunks_lost += 1
            self._bytes_lost += self.position - start
        return None

    def _pass_over(self, length: int) -> bool:
        self._chunks_lost += 1
        self._bytes_lost += CHUNK.size + length
        return True

    def _whole_chunk(self, start: int) -> memoryview | None:
        """The payload of the chunk at ``start``, None where it is damaged."""
        if start + CHUNK.size > self.size:
            return None
        kind, length, checksum = CHUNK.unpack_from(self._data, start)
        end = start + CHUNK.size + length
        if end > self.size or self._effort < length or not is_possible(kind, length):
            return None
        self._effort -= length
        if self._checksum_of(start + CHUNK.size, end) != checksum:
            return None
        return self._data[start + CHUNK.size : end]

    def _checksum_of(self, start: int, end: int) -> int:
        checksum = 0
        for place in range(start, end, PIECE):
            checksum = crc32(self._data[place : min(end, place + PIECE)], checksum)
            self._leave(place, min(end, place + PIECE))
        return checksum

    def _leave(self, start: int, end: int) -> None:
        """Give back the memory of a piece that has been read; it can be read again."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        if end - first >= PIECE // 2:
            self._mapped.madvise(mmap.MADV_DONTNEED, first, end - first)

    def _is_chunk(self, start: int) -> bool:
        """Whether a chunk may be at ``start``, or the end of the file."""
        return start == self.size or bytes(self._data[start : start + 4]) in KNOWN

    def _find(self, start: int, kinds: tuple[bytes, ...] = KNOWN) -> int:
        """Where the next whole chunk of one of the ``kinds`` begins; the size of the file
        where none does."""
        best = self.size
        for kind in kinds:
            for place in self._places(kind, start, best):
                if self._effort <= 0:
                    break
                if self._whole_chunk(place) is not None:
                    best = place
                    break
        return best

    def _places(self, text: bytes, start: int, end: int) -> Iterator[int]:
        """Where ``text`` occurs in the file, outside its holes (lseek(2))."""
        while start < end:
            try:
                first = os.lseek(self._file.fileno(), start, os.SEEK_DATA)
                last = os.lseek(self._file.fileno(), first, os.SEEK_HOLE)
            except OSError:  # nothing but a hole to its end, or it was cut short
                return
            for begin in range(first, min(last, end), PIECE):
                piece = bytes(self._data[begin : min(begin + PIECE + len(text) - 1, end)])
                self._leave(begin, min(begin + PIECE, end))
                place = piece.find(text)
                while place >= 0:
                    yield begin + place
                    place = piece.find(text, place + 1)
            start = last

    def _salvage_plan(self, payload: Buffer, version: int) -> Plan:
        try:
            payload = shorten(payload)
            plan, self._upgrade = decode_plan(payload, version)
        except DECODING_ERRORS as error:
            try:
                parts = msgspec.msgpack.decode(payload)
                plan = self._from_parts(parts, version)
            except DECODING_ERRORS:
                raise CaptureError(
                    f"the plan in {self.path} cannot be read at all ({error}),"
                    " without it events mean nothing",
                    RECORD,
                ) from error
        return plan

    def _with_additions(self, plan: Plan) -> Plan:
        """The plan with the additions to it that can be read."""
        if not plan.may_grow:
            return plan
        start, grown, damaged = self.position, Growing(plan), 0
        while (chunk := self._next()) is not None:
            if chunk[0] == ADDITION:
                try:
                    grown.add(decode_addition(shorten(chunk[1])), padding=UNREADABLE)
                except DECODING_ERRORS:
                    damaged += 1
        self.position = start
        self._unknown |= {n for n, probe in enumerate(grown.plan().probes) if probe is UNREADABLE}
        if damaged:
            self.left_out.append(f"{damaged:,} additions to the plan: cannot be decoded")
        return grown.plan()

    def _from_parts(self, parts: Any, version: int) -> Plan:
        """A plan of the parts that can be decoded."""
        fields = parts if isinstance(parts, dict) else {}
        binaries = _listed(fields.get("binaries", [fields.get("binary")]))
        functions = _listed(fields.get("functions"))
        probes = self._probes_from(_listed(fields.get("probes")), version)
        made = Plan(
            tuple(_convert(b, Binary) or Binary(_text(b, "path")) for b in binaries),
            tuple(
                _convert(f, Function) or Function(_text(f, "name") or f"function {n}", 0, 0, 0)
                for n, f in enumerate(functions)
            ),
            probes,
            may_grow=bool(fields.get("may_grow")),
            unseen_switches=_switches(fields.get("unseen_switches", "")),
        )
        if go := _convert(fields.get("go"), GoLayout):  # as version 1 has it
            made = replace(made, binaries=tuple(replace(b, go=go) for b in made.binaries))
        damaged = [
            made.functions[n].name for n, f in enumerate(functions) if _convert(f, Function) is None
        ]
        if damaged:
            self.left_out.append(f"the values of {_some(damaged)}: cannot be decoded")
        if not (binaries and functions and probes):
            raise msgspec.DecodeError("no functions and probes")
        return made

    def _probes_from(self, parts: list[Any], version: int) -> tuple[Probe, ...]:
        """The probes, and which of them cannot be read."""
        if version <= LAST_OF_V3:
            self._upgrade = Upgrade([_convert(part, OldProbe) for part in parts])
            self._unknown |= self._upgrade.unknown
            return self._upgrade.probes
        probes = tuple(_convert(part, Probe) or UNREADABLE for part in parts)
        self._unknown |= {n for n, probe in enumerate(probes) if probe is UNREADABLE}
        return probes

    def _without_faults(self, plan: Plan) -> Plan:
        """A plan without the parts in which `find_faults` finds faults."""
        binaries, functions = list(plan.binaries), list(plan.functions)
        probes = list(plan.probes)
        named = []
        for fault in find_faults(plan):
            if fault.record == "binary":
                go = binaries[fault.number].go
                go = replace(go, types=((), ())) if go else None
                binaries[fault.number] = replace(binaries[fault.number], go=go, symbols=Symbols())
                self.left_out.append(fault.what)
            elif fault.record == "probe":
                probes[fault.number] = UNREADABLE
                self._unknown.add(fault.number)
            elif functions[fault.number].parameters or functions[fault.number].result:
                functions[fault.number] = replace(
                    functions[fault.number], parameters=(), result=None, typed=False
                )
                named.append(fault.what)
            if fault.record == "function" and not 0 <= functions[fault.number].binary < len(
                binaries
            ):
                functions[fault.number] = replace(functions[fault.number], binary=0)
        for number, probe in enumerate(probes):
            if probe.role not in ROLES:
                probes[number] = UNREADABLE
                self._unknown.add(number)
        if not (binaries and functions):
            probes = []
        if named:
            self.left_out.append(f"the values of {_some(named)}")
        if self._unknown:
            self.left_out.append(f"{len(self._unknown):,} of {len(probes):,} probes")
        return replace(
            plan,
            binaries=tuple(binaries),
            functions=tuple(functions),
            probes=tuple(probes),
            unseen_switches="any" if self._lacks_stacks(plan) else plan.unseen_switches,
        )

    def _lacks_stacks(self, plan: Plan) -> bool:
        """Whether a probe that is left out may have reported stacks, or switches between them. In
        Go none does."""
        if any(binary.go for binary in plan.binaries):
            return False
        roles = {plan.probes[number].role for number in self._unknown}
        return any(role not in ROLES or role in STACK_ROLES for role in roles)


def _switches(data: Any) -> UnseenSwitches:
    return data if data in get_args(UnseenSwitches) else "any"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return "; ".join(names[:LISTED]) + more


def _listed(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _text(data: Any, field: str) -> str:
    found = data.get(field) if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""


def _convert(data: Any, kind: type[T]) -> T | None:
    try:
        return convert(data, kind)
    except DECODING_ERRORS:
        return None
