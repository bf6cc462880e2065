"""Reading captures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

import msgspec
from msgspec.structs import replace

from lbtrace.capture.check import find_faults
from lbtrace.capture.growing import Growing
from lbtrace.capture.heads import HEAD_SIZE, NUMBERS, Head, head_at
from lbtrace.capture.layout import (
    ADDITION,
    AGGREGATES,
    DECODING_ERRORS,
    END,
    EVENTS,
    HEADER,
    LARGEST,
    LOSSES,
    MAGIC,
    MOST_UNKNOWN,
    NOTE,
    PIECE,
    PLAN,
    VERSION,
    Buffer,
    MalformedError,
    decode_addition,
    decode_batch,
    decode_note,
    decode_plan,
    is_possible,
)
from lbtrace.capture.reported_losses import ReportedLosses
from lbtrace.errors import CaptureError, UsageError
from lbtrace.model import Aggregates, Batch, Losses, Plan
from lbtrace.probes.sources import finds_returns

if TYPE_CHECKING:
    from lbtrace.calls.iterator import Calls
    from lbtrace.calls.matcher import CallMatcher
    from lbtrace.tables import Count

RECORD = "record one with lbtrace attach -o NAME.lbt"

AFTER_PLAN = 1
"""The number of the chunk that follows the plan."""

UNREADABLE = "nothing of it can be read without its plan: record it again"
"""What to do about a plan that is damaged, unless it can be salvaged."""


class Capture:
    """A capture that is being read; `read_capture` opens one.

    `calls` yields the calls. ``plan`` says what was traced and how, ``path`` is the file.
    ``losses`` (what the trace lost, by cause), ``remarks`` (what was said of it while it ran, a
    line each) and ``complete`` (whether the trace was recorded to its end) are known when `calls`
    or `batches` has come to its end; until then they say what is known so far. ``losses_known``
    says that ``losses`` are all: without the counts at the end they are what threads reported, and
    more may have been lost. ``position`` and
    ``size`` count bytes. ``left_out`` says, a line each, what of the file was not read: what
    follows the end, and what could not be read of a salvaged capture.

    A context manager, which closes the file.
    """

    def __init__(self, path: str, file: BinaryIO, size: int) -> None:
        self.path = path
        self.size = size
        self.position = 0
        self.losses = Losses()
        self.losses_known = self.complete = False
        self.remarks: list[str] = []
        self.left_out: list[str] = []
        self._file = file
        self._turn = 0
        self._number = 0
        self._identity: int | None = None
        self.plan = self._read_plan()
        self._start = self.position
        self._left_out_of_plan = len(self.left_out)

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that a person should read, a line each: what was left out of the plan and
        why."""
        return self.plan.notes

    def __repr__(self) -> str:
        count = len(self.plan.functions)
        functions = "1 function" if count == 1 else f"{count:,} functions"
        return f"<lbtrace.Capture {self.path!r}: {functions}, {self.size:,} bytes>"

    def __del__(self) -> None:
        self._file.close()

    def calls(self, *, max_depth: int | None = None) -> Calls:
        """Return the calls, each when it has ended, innermost calls first, without those that are
        ``max_depth`` deep or deeper. Each call of this method starts from the beginning.

        Raises `CaptureError` where the file cannot be read, or its content is impossible,
        `UsageError` of a trace that aggregates (see `counts`), and where the file is closed. Needs
        neither privileges nor the traced program.
        """
        # Imported here because an export does not need it.
        from lbtrace.calls.iterator import Calls, check_sends

        check_sends(self.plan)

        def note_losses(matcher: CallMatcher) -> None:
            lost = max(self.losses.return_depth, matcher.return_depth)
            self.losses = replace(self.losses, return_depth=lost)

        return Calls(self.plan, self.batches(), max_depth, note_losses)

    def counts(self) -> list[Count]:
        """Return how often each function was called, in each process, most often called first: of a
        trace whose action was ``count``. Reads the capture from its beginning.

        Raises `CaptureError` where the file cannot be read.
        """
        return self._table("count")

    def table(self) -> list[Any]:
        """Return the rows of what was aggregated in the kernel, of a trace whose action does so.
        Reads the capture from its beginning.

        Raises `CaptureError` where the file cannot be read.
        """
        return self._table()

    def _table(self, action: str = "") -> list[Any]:
        # imported here because most captures hold calls
        from lbtrace.tables import check_aggregates, table_of

        check_aggregates(self.plan, action)
        last = Aggregates(0)
        for batch in self.batches():
            if isinstance(batch, Aggregates):
                last = batch
        return table_of(self.plan, last, action)

    def batches(self) -> Iterator[Batch | Aggregates]:
        """Yield the batches, and what was aggregated, in order, to the last that is whole. Each
        time from the beginning; raises `UsageError` where another iteration has begun meanwhile."""
        self._rewind()
        turn, unknown = self._turn, 0
        reported = ReportedLosses()
        while unknown <= MOST_UNKNOWN and (chunk := self._next()) is not None:
            kind, payload = chunk
            unknown += kind not in LARGEST or kind == NOTE
            try:
                if kind == EVENTS:
                    batch = decode_batch(payload)
                    self.losses_known = False
                    if reported.note(batch):
                        self.losses = reported.at_least(self.losses)
                    yield batch
                elif kind == AGGREGATES:
                    self.losses_known = False
                    yield msgspec.msgpack.decode(payload, type=Aggregates)
                elif kind == NOTE:
                    self.remarks.append(decode_note(payload))
                elif kind == LOSSES:
                    counted = msgspec.msgpack.decode(payload, type=Losses)
                    self.losses, self.losses_known = reported.at_least(counted), True
                elif kind == PLAN:  # those that follow are of another capture
                    raise MalformedError
                elif kind == END:
                    self.complete = True
                    self._account_for_rest()
                    return
            except (MalformedError, *DECODING_ERRORS):
                if not self._pass_over(len(payload)):
                    return
            self._check_open()
            if self._turn != turn:
                raise UsageError(
                    f"{self.path} is read from the beginning again, in another iteration",
                    "open it once more with read_capture() to read it twice at the same time",
                )

    def _account_for_rest(self) -> None:
        """Note what follows the end."""
        length = self.size - self.position
        if length <= 0:
            return
        if self._read(len(MAGIC)) == MAGIC:
            what = f"another capture after its end, which tail -c {length} yields"
        else:
            what = f"{'1 byte' if length == 1 else f'{length:,} bytes'} after its end"
        self.left_out.append(what)

    def _check_open(self) -> None:
        if self._file.closed:
            raise UsageError(f"{self.path} is closed", "do this inside of the with statement")

    def _rewind(self) -> None:
        """Go back to the first chunk after the plan."""
        self._check_open()
        self._turn += 1
        self._file.seek(self._start)
        self.position, self._number = self._start, AFTER_PLAN
        self.losses, self.losses_known, self.complete = Losses(), False, False
        self.remarks = []
        del self.left_out[self._left_out_of_plan :]

    def _read_plan(self) -> Plan:
        self._read_header()
        chunk = self._next()
        if chunk is None or chunk[0] != PLAN:
            raise CaptureError(
                f"{self.path} ends before its plan, or the plan is damaged", UNREADABLE
            )
        payload: Buffer = chunk[1]
        try:
            plan = decode_plan(payload)
        except DECODING_ERRORS as error:
            where = _record_of(str(error), payload)
            raise CaptureError(
                f"the plan in {self.path} is damaged: {where}{error}", UNREADABLE
            ) from error
        if plan.may_grow or plan.stack_depth or finds_returns(plan.probes):
            plan = self._with_additions(plan)
        fault = next(find_faults(plan), None)
        if fault is not None:
            raise CaptureError(f"the plan in {self.path} is damaged: {fault}", UNREADABLE)
        return plan

    def _with_additions(self, plan: Plan) -> Plan:
        """The plan that the trace had at its end. What follows a damaged addition is not read."""
        start, number, grown = self.position, self._number, Growing(plan)
        while (payload := self._next_addition()) is not None:
            try:
                if not grown.add(decode_addition(payload)):
                    break
            except DECODING_ERRORS:
                break
        self._file.seek(start)
        self.position, self._number = start, number
        return grown.plan()

    def _next_addition(self) -> memoryview | None:
        """The next addition to the plan, None where the capture ends or breaks off. Other chunks
        are passed over unread."""
        while (head := self._next_head()) is not None and head.kind not in (PLAN, END):
            if head.kind == ADDITION:
                return self._payload(head)
            self._file.seek(head.length, os.SEEK_CUR)
            self.position += head.length
        return None

    def _read_header(self) -> None:
        header = self._read(HEADER.size)
        if len(header) < HEADER.size or not header.startswith(MAGIC):
            raise CaptureError(f"{self.path} is not a capture", RECORD)
        version: int = HEADER.unpack(header)[1]
        if version != VERSION:
            which = "a newer lbtrace" if version > VERSION else "the lbtrace that wrote it"
            raise CaptureError(
                f"{self.path} has version {version} of the capture format, this reads {VERSION}",
                f"read it with {which}",
            )

    def _pass_over(self, length: int) -> bool:
        """Whether to continue after a chunk whose content is damaged."""
        return False

    def _next(self) -> tuple[bytes, memoryview] | None:
        """The next chunk, None where the capture ends or breaks off."""
        head = self._next_head()
        if head is None:
            return None
        if head.length > PIECE:  # before that much memory is allocated
            if not self._is_sound(head):
                return None
            if head.kind not in LARGEST:
                return head.kind, memoryview(b"")
            self._file.seek(-head.length, os.SEEK_CUR)
            self.position -= head.length
        payload = self._payload(head)
        return None if payload is None else (head.kind, payload)

    def _next_head(self) -> Head | None:
        """The head of the next chunk, None where no whole chunk can follow, or another follows."""
        data = self._read(HEAD_SIZE)
        if len(data) < HEAD_SIZE:
            return None
        head = head_at(data, 0)
        if head.length > self.size - self.position or not is_possible(head.kind, head.length):
            return None
        if head.number != self._number:
            return None
        if self._identity is None:  # it is the plan
            self._identity = head.identity
        elif head.identity != self._identity:
            return None
        self._number = (self._number + 1) % NUMBERS
        return head

    def _payload(self, head: Head) -> memoryview | None:
        """The content of a chunk, None where it is damaged."""
        payload = self._read(head.length)
        if len(payload) < head.length or not head.covers(payload):
            return None
        return memoryview(payload)

    def _is_sound(self, head: Head) -> bool:
        """Whether the chunk that begins here has its checksum; it is read piece by piece."""
        checksum, length = head.seed, head.length
        while length > 0 and (piece := self._read(min(length, PIECE))):
            checksum = crc32(piece, checksum)
            length -= len(piece)
        return not length and checksum == head.checksum

    def _read(self, length: int) -> bytes:
        try:
            data = self._file.read(length)
        except OSError as error:
            raise CaptureError(
                f"{self.path} cannot be read: {error.strerror}", "check its disk"
            ) from error
        self.position += len(data)
        return data


def _record_of(error: str, payload: Buffer) -> str:
    """The name of the function in which msgspec found an error, from its path."""
    number = re.search(r"\$\.functions\[(\d+)\]", error)
    if number is None:
        return ""
    try:
        name = msgspec.msgpack.decode(payload)["functions"][int(number[1])]["name"]
    except (LookupError, TypeError, *DECODING_ERRORS):
        return ""
    return f"function {name}: "
