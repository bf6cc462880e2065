"""The layout of a capture file, all numbers little-endian (docs/capture-format.md says more).

::

    magic   8 bytes   89 4C 42 54 0D 0A 1A 0A
    version u32
    chunk*  head payload (`lbtrace.capture.heads`)

The first chunk is the plan. Batches follow in the order of the ring buffer, additions to the plan
before the first batch that needs them, losses whenever they were read (the last ones count), notes
when they were said, and an empty chunk at the end; without it the capture was interrupted.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from lbtrace.model import Addition, Plan
from lbtrace.model.wire import EVENT_SIZE
from lbtrace.values import convert, type_hook

MAGIC = b"\x89LBT\r\n\x1a\n"
"""As PNG's: the first byte is not text, and a transfer that changes line
ends, or stops at an end-of-file mark, spoils it."""

VERSION = 7
"""Raised when an older reader could not make sense of a newer file. No other is read: none was in a
release."""

HEADER = Struct("<8sI")
BATCH = Struct("<III")

PLAN, ADDITION, EVENTS, AGGREGATES = b"PLAN", b"ADDN", b"EVTS", b"AGGR"
LOSSES, NOTE, END = b"LOSS", b"NOTE", b"END "

LARGEST = {
    **{PLAN: 1 << 29, ADDITION: 1 << 26},
    **{EVENTS: 1 << 28, AGGREGATES: 1 << 26, LOSSES: 1 << 16},
    **{NOTE: 1 << 16, END: 0},
}
"""Bytes that a chunk may claim to hold: more than any writer writes, to bound the cost of
damaged and hostile files. (A batch is 4096 events, with 16 values of 4 KB each at the very
most.)"""

LARGEST_UNKNOWN = 1 << 28
"""The same for chunks of unknown type, which are skipped."""

MOST_UNKNOWN = 1 << 16
"""Chunks of unknown types that are skipped; a file with more of them is no capture."""

PIECE = 1 << 20
"""Bytes of a chunk that are read at a time before its checksum has been verified."""

if TYPE_CHECKING:
    from lbtrace.model import Batch

Buffer: TypeAlias = bytes | memoryview

T = TypeVar("T")

DECODING_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""What msgspec raises for malformed bytes."""

_INTEGERS = range(-(1 << 63), 1 << 64)
"""What MessagePack can hold."""


class MalformedError(Exception):
    """A chunk whose checksum is right but whose content is not."""


def encode_plan(plan: Plan | Addition) -> bytes:
    """Return a plan, or an addition to one, as MessagePack: structs are maps by field name.

    Integers that need more than 64 bits are decimal texts. In a plan that is ``escaped``
    bytes of names that are not UTF-8, which no MessagePack text can hold (lone surrogates,
    PEP 383), are a NUL and two hexadecimal digits.
    """
    try:
        return msgspec.msgpack.encode(plan)
    except (OverflowError, UnicodeEncodeError):
        fields = _encodable(msgspec.to_builtins(plan))
        return msgspec.msgpack.encode({"escaped": True, **fields})


def decode_plan(payload: Buffer) -> Plan:
    """Return the plan in a ``PLAN`` chunk. Raises `DECODING_ERRORS`."""
    return _decode(payload, Plan)


def encode_note(text: str) -> bytes:
    """Return a note as UTF-8, cut where it is too long for a chunk."""
    return text.encode("utf-8", "surrogateescape")[: LARGEST[NOTE]]


def decode_note(payload: memoryview) -> str:
    """Return the note in a ``NOTE`` chunk."""
    return bytes(payload).decode("utf-8", "surrogateescape")


def decode_addition(payload: Buffer) -> Addition:
    """Return the addition in an ``ADDN`` chunk. Raises `DECODING_ERRORS`."""
    return _decode(payload, Addition)


def _decode(payload: Buffer, kind: type[T]) -> T:
    if msgspec.msgpack.decode(payload, type=_Form).escaped:
        return convert(_decoded(msgspec.msgpack.decode(payload)), kind)
    return msgspec.msgpack.decode(payload, type=kind, strict=False, dec_hook=type_hook)


class _Form(msgspec.Struct):
    escaped: bool = False


def _decoded(data: Any) -> Any:
    """The inverse of `_encodable`, except for integers."""
    if isinstance(data, dict):
        return {key: _decoded(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_decoded(each) for each in data]
    if isinstance(data, str):
        return re.sub(_ESCAPED, lambda found: chr(0xDC00 + int(found[1], 16)), data)
    return data


_ESCAPED = "\0([89a-f][0-9a-f])"


def _encodable(data: Any) -> Any:
    if isinstance(data, dict):
        return {_encodable(key): _encodable(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_encodable(each) for each in data]
    if isinstance(data, str):
        escaped = re.sub("[\udc80-\udcff]", lambda found: f"\0{ord(found[0]) - 0xDC00:x}", data)
        return escaped.encode("utf-8", "replace").decode()
    if type(data) is int and data not in _INTEGERS:
        return str(data)
    return data


def is_possible(kind: bytes, length: int) -> bool:
    """Return whether a chunk of this type may hold this many bytes."""
    return length <= LARGEST.get(kind, LARGEST_UNKNOWN)


def decode_batch(payload: memoryview) -> Batch:
    """Return the batch that an ``EVTS`` chunk holds. Raises `MalformedError` and
    `DECODING_ERRORS`."""
    # Imported here because a plan is read without them.
    from lbtrace.model import Batch, Thread

    if len(payload) < BATCH.size:
        raise MalformedError
    events, blobs, threads = BATCH.unpack_from(payload)
    if BATCH.size + events + blobs + threads != len(payload) or events % EVENT_SIZE:
        raise MalformedError
    rest = payload[BATCH.size :]
    return Batch(
        rest[threads : threads + events],
        rest[threads + events :],
        msgspec.msgpack.decode(rest[:threads], type=tuple[Thread, ...]),
    )


def size_of(buffer: Buffer) -> int:
    """Return its length in bytes."""
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
