"""The payload of an event: words, and for strings and pieces of memory their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from struct import Struct
from typing import TypeAlias

from lbtrace.calls.symbolizer import Namer
from lbtrace.model import Event, Fetch
from lbtrace.model.wire_limits import VALUES
from lbtrace.values.base import Fetched, Type

Names: TypeAlias = Mapping[int, tuple[str, int]]
"""Names and kinds of Go's types, by hash."""

Blob: TypeAlias = bytes | memoryview
"""The bytes that accompany an event: damaged ones may refer to some that they lack."""

FIXED_WORDS = attrgetter(*[f"value{n}" for n in range(VALUES)])


class Context:
    """What is known besides the events: the ``names`` and kinds of Go's types, by hash, the structs
    ``held`` by errors, and what names functions; ``address`` is that of the probe in the file,
    ``binary`` the number of the file."""

    __slots__ = ("address", "binary", "held", "namer", "names")

    def __init__(
        self,
        names: Names | None = None,
        namer: Namer | None = None,
        binary: int = 0,
        address: int = 0,
        held: Mapping[int, Type] | None = None,
    ) -> None:
        self.binary = binary
        self.held = held or {}
        self.names = names or {}
        self.namer = namer or Namer()
        self.address = address


def lies_in_memory(slot: int, fetches: tuple[Fetch, ...]) -> bool:
    """Return whether a slot holds a string or bytes, which follow the event, rather than a word."""
    return 0 <= slot < len(fetches) and fetches[slot].read in ("string", "bytes")


def collector(fetches: tuple[Fetch, ...]) -> Callable[[Event, Blob], Fetched]:
    """Build the function that takes what ``fetches`` got out of an event and its bytes.

    The bytes hold the values from the seventh on, eight bytes each, then strings and bytes in
    the order of their slots (``struct lbt_event`` in ``bpf_src/wire.h``).
    """
    beyond = Struct(f"<{max(0, len(fetches) - VALUES)}Q")
    in_memory = [slot for slot in range(len(fetches)) if lies_in_memory(slot, fetches)]

    def collect(event: Event, blob: Blob) -> Fetched:
        words = FIXED_WORDS(event)
        position = beyond.size
        faults = event.faults
        if position > len(blob):  # damaged
            return Fetched(words, {}, (1 << len(fetches)) - 1, event.pid)
        if position:
            words += beyond.unpack_from(blob)
        pieces: dict[int, Blob] = {}
        for slot in in_memory:
            if not faults >> slot & 1:
                size = words[slot] & 0xFFFF_FFFF
                pieces[slot] = blob[position : position + size]
                position += size
        return Fetched(words, pieces, faults, event.pid)

    return collect
