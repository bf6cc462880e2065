"""Reads past the damage in a capture whose plan is whole.

Chunks whose checksum is wrong are left out; where their length is wrong too, the next chunk is
searched for. Chunks of another capture, and those that are there once more, are passed over.
`Batch.gap` marks where batches are missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from lbtrace.capture.heads import HEAD_SIZE, NUMBERS, Head, head_at
from lbtrace.capture.layout import (
    ADDITION,
    AGGREGATES,
    END,
    EVENTS,
    LOSSES,
    NOTE,
    PIECE,
    PLAN,
    is_possible,
)
from lbtrace.capture.reading import Capture
from lbtrace.model import Aggregates, Batch, Plan, wire
from lbtrace.model.wire import EVENT_SIZE

KNOWN = re.compile(b"|".join((PLAN, ADDITION, EVENTS, AGGREGATES, LOSSES, NOTE, END)))
"""Types of chunks that are searched for."""

EFFORT = 8
"""The search reads at most this many times the size of the file."""


class SalvagedCapture(Capture):
    """A capture that is read as far as possible. ``left_out`` is complete when `batches` has come
    to its end."""

    def batches(self) -> Iterator[Batch | Aggregates]:
        """Yield the undamaged batches, in order, without the events of probes that an addition to
        the plan would describe which is missing: what they ended is not known."""
        missing = unknown = 0
        for whole in super().batches():
            if isinstance(whole, Aggregates):
                yield whole
                continue
            batch, left = _without_unknown(whole, len(self.plan.probes))
            unknown += left
            batch.gap, missing = left > 0 or self._lost > missing, self._lost
            yield batch
        self.left_out += [*self._account_for_chunks()]
        if unknown:
            self.left_out.append(f"{_count(unknown, 'event')} whose probe cannot be read")

    def _account_for_chunks(self) -> Iterator[str]:
        """What of the file is not exactly one capture, a line each."""
        if self._lost:
            damaged = self._damaged
            what = f" of {damaged:,} bytes in all: damaged" if damaged else ": missing"
            yield _count(self._lost, "chunk") + what
        elif self._damaged:
            belong = "belongs" if self._damaged == 1 else "belong"
            yield f"{_count(self._damaged, 'byte')} that {belong} to no chunk"
        if self._foreign:
            yield f"{_count(self._foreign, 'chunk')} of another capture"
        if self._doubles:
            are = "is" if self._doubles == 1 else "are"
            yield f"{_count(self._doubles, 'chunk')} that {are} there once more"

    def _read_plan(self) -> Plan:
        self._forget()
        return super()._read_plan()

    def _rewind(self) -> None:
        super()._rewind()
        self._forget()

    def _forget(self) -> None:
        self._lost = self._damaged = self._foreign = self._doubles = 0
        self._effort = EFFORT * self.size

    def _next(self) -> tuple[bytes, memoryview] | None:
        """The next chunk of this capture that is whole; None where there is none any more."""
        unknown = 0
        while self.position < self.size:
            place = self.position
            head = self._whole_at(place)
            if head is None:
                self.position = self._search(place + 1)
                self._damaged += self.position - place
                unknown = 1
                continue
            self.position = place + HEAD_SIZE + head.length
            if self._identity is None:  # it is the plan
                self._identity = head.identity
            missing = (head.number - self._number) % NUMBERS
            if head.identity != self._identity:
                self._foreign += 1
            elif missing > NUMBERS // 2:
                self._doubles += 1
            else:
                self._lost += missing
                self._number = (head.number + 1) % NUMBERS
                self._file.seek(place + HEAD_SIZE)
                self.position = place + HEAD_SIZE
                return head.kind, memoryview(self._read(head.length))
        self._lost += unknown
        return None

    def _next_addition(self) -> memoryview | None:
        while (chunk := self._next()) is not None and chunk[0] != END:
            if chunk[0] == ADDITION:
                return chunk[1]
        return None

    def _pass_over(self, length: int) -> bool:
        self._lost += 1
        self._damaged += HEAD_SIZE + length
        return True

    def _whole_at(self, place: int) -> Head | None:
        """The head of the chunk at ``place``; None where none is whole."""
        self._file.seek(place)
        data = self._read(HEAD_SIZE)
        if len(data) < HEAD_SIZE:
            return None
        head = head_at(data, 0)
        end = place + HEAD_SIZE + head.length
        if end > self.size or self._effort < head.length or not is_possible(head.kind, head.length):
            return None
        self._effort -= head.length
        return head if self._is_sound(head) else None

    def _search(self, place: int) -> int:
        """Where the next whole chunk of a known type begins; the size of the file where none does.
        Holes are passed over (lseek(2))."""
        while place < self.size and self._effort > 0:
            try:
                place = os.lseek(self._file.fileno(), place, os.SEEK_DATA)
            except OSError:  # nothing but a hole to its end, or it was cut short
                break
            self._file.seek(place)
            piece = self._read(PIECE + len(PLAN) - 1)
            for found in KNOWN.finditer(piece):
                if self._whole_at(place + found.start()) is not None:
                    return place + found.start()
            place += PIECE
        return self.size


def _without_unknown(batch: Batch, probes: int) -> tuple[Batch, int]:
    """A batch without the events of other probes than the first ones, and how many these are."""
    events = [*wire.decode_all(batch.events)]
    if all(event.probe < probes for event in events):
        return batch, 0
    kept: list[bytes | memoryview] = []
    blobs: list[bytes | memoryview] = []
    position = 0
    for number, event in enumerate(events):
        if event.probe < probes:
            kept.append(batch.events[number * EVENT_SIZE : (number + 1) * EVENT_SIZE])
            blobs.append(batch.blobs[position : position + event.blob])
        position += event.blob
    return Batch(b"".join(kept), b"".join(blobs), batch.threads), len(events) - len(kept)


def _count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"
