"""Captures: the batches of a trace, with the plan that explains them.

The layout, all numbers little-endian (docs/capture-format.md says more)::

    magic   8 bytes   89 4C 42 54 0D 0A 1A 0A
    version u32
    chunk*  type[4] length:u32 crc32:u32 payload[length]

The first chunk is the plan. Batches follow as they came, losses whenever
they were read (the last word counts), and an empty chunk at the end, whose
absence says that the capture was interrupted. A chunk that is cut or whose
checksum fails ends the capture there; unknown types are passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from struct import Struct
from types import TracebackType
from typing import BinaryIO, TypeAlias
from zlib import crc32

import msgspec

from lbtrace.calls.gathering import FIXED
from lbtrace.errors import CaptureError, OutputError
from lbtrace.model import (
    Array,
    Batch,
    Binary,
    Float,
    Function,
    GoLayout,
    Interface,
    Losses,
    Plan,
    Pointer,
    Probe,
    Record,
    Slice,
    String,
    Thread,
    Value,
)
from lbtrace.wire import EVENT_SIZE

MAGIC = b"\x89LBT\r\n\x1a\n"
"""As PNG's: the first byte is not text, and a transfer that changes line
ends, or stops at an end-of-file mark, spoils it."""

VERSION = 2
"""Raised when an older reader could not make sense of a newer file."""

DEPTH = 32
"""Members within members that a value may have."""

_HEADER = Struct("<8sI")
_CHUNK = Struct("<4sII")
_BATCH = Struct("<III")

_PLAN, _EVENTS, _LOSSES, _END = b"PLAN", b"EVTS", b"LOSS", b"END "

_Buffer: TypeAlias = bytes | memoryview


class CaptureWriter:
    """Writes a capture to an unbuffered binary stream.

    Costs nothing per event: the buffers of a batch go to the stream as they
    are. Whatever ends the writing, what was written so far stays readable.
    All methods raise `OutputError` when the disk is full or the stream fails;
    `BrokenPipeError` passes through.
    """

    def __init__(self, stream: BinaryIO, plan: Plan) -> None:
        self._stream = stream
        self._write(_HEADER.pack(MAGIC, VERSION))
        self._chunk(_PLAN, msgspec.msgpack.encode(plan))

    def write(self, batch: Batch) -> None:
        """Append a batch."""
        threads = msgspec.msgpack.encode(batch.threads)
        lengths = _BATCH.pack(_size(batch.events), _size(batch.blobs), len(threads))
        self._chunk(_EVENTS, lengths + threads, batch.events, batch.blobs)

    def losses(self, losses: Losses) -> None:
        """Record what was lost up to now, in all."""
        self._chunk(_LOSSES, msgspec.msgpack.encode(losses))

    def finish(self, losses: Losses) -> None:
        """Record what was lost, and that the capture is whole."""
        self.losses(losses)
        self._chunk(_END)

    def _chunk(self, kind: bytes, *parts: _Buffer) -> None:
        checksum = 0
        for part in parts:
            checksum = crc32(part, checksum)
        first, rest = (bytes(parts[0]), parts[1:]) if parts else (b"", ())
        self._write(_CHUNK.pack(kind, sum(map(_size, parts)), checksum) + first)
        for part in rest:
            self._write(part)

    def _write(self, data: _Buffer) -> None:
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


class Capture:
    """A capture that is being read; `read_capture` opens one.

    ``losses`` and ``complete`` are known when `batches` has come to its end;
    until then they say what is known so far. ``position`` and ``size`` count
    bytes.
    """

    def __init__(self, path: str, file: BinaryIO, size: int) -> None:
        self.path = path
        self.size = size
        self.position = 0
        self.losses = Losses()
        self.complete = False
        self._file = file
        self.plan = self._read_plan()

    def __enter__(self) -> Capture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def batches(self) -> Iterator[Batch]:
        """The batches, in order, to the last one that is whole. Once only."""
        while (chunk := self._next()) is not None:
            kind, payload = chunk
            try:
                if kind == _EVENTS:
                    yield _batch(payload)
                elif kind == _LOSSES:
                    self.losses = msgspec.msgpack.decode(payload, type=Losses)
                elif kind == _END:
                    self.complete = True
                    return
            except _Malformed:
                return
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return

    def _read_plan(self) -> Plan:
        header = self._read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(MAGIC):
            raise CaptureError(f"{self.path} is not a capture", _RECORD)
        version = _HEADER.unpack(header)[1]
        if not 1 <= version <= VERSION:
            raise CaptureError(
                f"{self.path} has version {version} of the capture format, this reads {VERSION}",
                "read it with a newer lbtrace",
            )
        chunk = self._next()
        if chunk is None or chunk[0] != _PLAN:
            raise CaptureError(f"{self.path} breaks off before its plan", _RECORD)
        try:
            if version == 1:
                plan = msgspec.msgpack.decode(chunk[1], type=_FirstPlan).renewed()
            else:
                plan = msgspec.msgpack.decode(chunk[1], type=Plan)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CaptureError(f"the plan in {self.path} is damaged: {error}", _RECORD) from error
        if fault := _fault(plan):
            raise CaptureError(f"the plan in {self.path} is damaged: {fault}", _RECORD)
        return plan

    def _next(self) -> tuple[bytes, memoryview] | None:
        """The next chunk, None where the capture ends or breaks off."""
        head = self._read(_CHUNK.size)
        if len(head) < _CHUNK.size:
            return None
        kind, length, checksum = _CHUNK.unpack(head)
        if length > self.size - self.position:
            return None
        payload = self._read(length)
        if len(payload) < length or crc32(payload) != checksum:
            return None
        return kind, memoryview(payload)

    def _read(self, length: int) -> bytes:
        try:
            data = self._file.read(length)
        except OSError as error:
            raise CaptureError(
                f"{self.path} cannot be read: {error.strerror}", "check the disk it lies on"
            ) from error
        self.position += len(data)
        return data


class _FirstPlan(msgspec.Struct):
    """A plan in version 1: of one binary."""

    binary: Binary
    functions: tuple[Function, ...]
    probes: tuple[Probe, ...]
    notes: tuple[str, ...] = ()
    go: GoLayout | None = None

    def renewed(self) -> Plan:
        binary = msgspec.structs.replace(self.binary, go=self.go)
        return Plan((binary,), self.functions, self.probes, self.notes)


_RECORD = "record one with lbtrace attach -o NAME.lbt"


class _Malformed(Exception):
    """A chunk whose checksum is right but whose content is not."""


def read_capture(path: str) -> Capture:
    """Open a capture and read its plan.

    Raises `CaptureError` when the file cannot be read, is no capture, is of a
    newer version, or has no sound plan. Damage behind the plan is no error:
    the batches end there and ``complete`` stays False.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115 - Capture closes it
    except OSError as error:
        raise CaptureError(
            f"{path} cannot be read: {error.strerror}", "give the path of a capture (.lbt)"
        ) from error
    status = os.fstat(file.fileno())
    try:
        if not stat.S_ISREG(status.st_mode):
            raise CaptureError(f"{path} is not a regular file", "copy the capture to a file first")
        return Capture(path, file, status.st_size)
    except BaseException:
        file.close()
        raise


def _size(buffer: _Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def _batch(payload: memoryview) -> Batch:
    if len(payload) < _BATCH.size:
        raise _Malformed
    events, blobs, threads = _BATCH.unpack_from(payload)
    if _BATCH.size + events + blobs + threads != len(payload) or events % EVENT_SIZE:
        raise _Malformed
    rest = payload[_BATCH.size :]
    return Batch(
        rest[threads : threads + events],
        rest[threads + events :],
        msgspec.msgpack.decode(rest[:threads], type=tuple[Thread, ...]),
    )


def _fault(plan: Plan) -> str:
    """What is wrong with the references and sizes in a plan; empty if nothing."""
    owners = {f.binary for f in plan.functions} | {probe.binary for probe in plan.probes}
    if not owners <= set(range(len(plan.binaries))):
        return f"something belongs to none of its {len(plan.binaries)} binaries"
    for probe in plan.probes:
        if not 0 <= probe.function < len(plan.functions):
            return f"a probe names function {probe.function} of {len(plan.functions)}"
        function = plan.functions[probe.function]
        result = (function.result,) if function.result else ()
        for values, fetches in (
            (function.parameters if probe.kind in ("call", "entry") else (), probe.fetches),
            (result if probe.kind in ("call", "return") else (), probe.result_fetches),
        ):
            for value in values:
                if fault := _value_fault(value, max(FIXED, len(fetches)), DEPTH):
                    return f"{function.name} has a value {fault}"
    return ""


def _value_fault(value: Value, slots: int, depth: int) -> str:
    """What is wrong with a value that has ``slots`` slots to choose from; empty if nothing."""
    if depth < 0:
        return "that is nested too deeply"
    for member in value.members:
        if fault := _value_fault(member, slots, depth - 1):
            return fault
    composed = isinstance(value.type, Record | Array | Pointer | Slice | Interface)
    lacking = isinstance(value.type, Slice | Interface) and len(value.members) < 2
    if not -1 <= value.slot < slots:
        return f"in slot {value.slot}"
    sizes = (2, 4, 8) if isinstance(value.type, Float) else range(1, 9)
    scalar = not isinstance(value.type, Record | Array | String | Slice | Interface)
    unfit = lacking or (value.members and not composed)
    if unfit or (scalar and getattr(value.type, "size", 1) not in sizes):
        return "of an impossible size"
    if value.offset not in range(1 << 20) or not 0 <= value.bit_offset + value.bit_size <= 64:
        return "at an impossible place"
    return ""
