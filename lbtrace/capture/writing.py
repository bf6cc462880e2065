"""Writes captures."""

from __future__ import annotations

import os
from typing import BinaryIO

import msgspec

from lbtrace.capture.heads import head_of
from lbtrace.capture.layout import (
    ADDITION,
    AGGREGATES,
    BATCH,
    END,
    EVENTS,
    HEADER,
    LOSSES,
    MAGIC,
    NOTE,
    PLAN,
    VERSION,
    Buffer,
    encode_note,
    encode_plan,
    is_possible,
    size_of,
)
from lbtrace.dwarf.code_names import with_names
from lbtrace.errors import CaptureError, OutputError
from lbtrace.model import Addition, Aggregates, Batch, Losses, Plan


class CaptureWriter:
    """Writes a capture to an unbuffered binary stream.

    Costs nothing per event: the buffers of a batch go to the stream as they are. What was written
    stays readable, however writing ends. All methods raise `OutputError` when the disk is full or
    the stream fails; `BrokenPipeError` passes through. `check_plan` checks before tracing starts
    that the ``plan`` can be read back; raises `CaptureError` where it is too large.
    """

    def __init__(self, stream: BinaryIO, plan: Plan) -> None:
        self._stream = stream
        encoded = encode_plan(with_names(plan))
        if not is_possible(PLAN, len(encoded)):
            raise CaptureError(
                f"no capture holds a plan of {len(encoded):,} bytes",
                "trace fewer functions, or choose another --format",
            )
        self._chunks = 0
        # Random: a second capture of the same plan is another one, too.
        self._identity = int.from_bytes(os.urandom(4), "little")
        self._write(HEADER.pack(MAGIC, VERSION))
        self._chunk(PLAN, encoded)

    def write(self, batch: Batch | Aggregates | Addition) -> None:
        """Append a batch, what has been aggregated so far, or what the plan has got."""
        if isinstance(batch, Addition):
            self._chunk(ADDITION, encode_plan(batch))
            return
        if isinstance(batch, Aggregates):
            self._chunk(AGGREGATES, msgspec.msgpack.encode(batch))
            return
        threads = msgspec.msgpack.encode(batch.threads)
        lengths = BATCH.pack(size_of(batch.events), size_of(batch.blobs), len(threads))
        self._chunk(EVENTS, lengths + threads, batch.events, batch.blobs)

    def note(self, text: str) -> None:
        """Record a line that was said of the running trace."""
        self._chunk(NOTE, encode_note(text))

    def losses(self, losses: Losses) -> None:
        """Record what was lost up to now, in all."""
        self._chunk(LOSSES, msgspec.msgpack.encode(losses))

    def finish(self, losses: Losses) -> None:
        """Record what was lost, and that the capture is complete."""
        self.losses(losses)
        self._chunk(END)

    def _chunk(self, kind: bytes, *parts: Buffer) -> None:
        first, rest = (bytes(parts[0]), parts[1:]) if parts else (b"", ())
        self._write(head_of(kind, self._chunks, self._identity, *parts) + first)
        self._chunks += 1
        for part in rest:
            self._write(part)

    def _write(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        try:
            while view:
                view = view[self._stream.write(view) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(
                f"the capture cannot be written: {error.strerror}",
                "make room, or choose another place; what was written so far can be read",
            ) from error
