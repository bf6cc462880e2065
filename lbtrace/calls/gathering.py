"""What an event brought: words, and for strings and pieces of memory their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from struct import Struct
from typing import TypeAlias

from lbtrace.calls.naming import Namer
from lbtrace.model import Event, Fetch

FIXED = 6
"""Values in the fixed part of an event: ``LBT_VALUES`` in bpf_src/lbtrace.h."""

Names: TypeAlias = Mapping[int, str]
FIXED_WORDS = attrgetter(*[f"value{n}" for n in range(FIXED)])


class Context:
    """What is known beside the events: the ``names`` of Go's types, by hash, and
    what names functions; ``address`` is that of the probe in the file, ``binary``
    the number of the file."""

    __slots__ = ("address", "binary", "namer", "names")

    def __init__(
        self,
        names: Names | None = None,
        namer: Namer | None = None,
        binary: int = 0,
        address: int = 0,
    ) -> None:
        self.binary = binary
        self.names = names or {}
        self.namer = namer or Namer()
        self.address = address


class Fetched:
    """What an event brought, by slot: words, and for those that are in memory their bytes."""

    __slots__ = ("faults", "pid", "pieces", "words")

    def __init__(
        self, words: Sequence[int], pieces: dict[int, bytes | memoryview], faults: int, pid: int
    ) -> None:
        self.pid = pid
        self.words = words
        self.pieces = pieces
        self.faults = faults


def lies_in_memory(slot: int, fetches: tuple[Fetch, ...]) -> bool:
    return 0 <= slot < len(fetches) and fetches[slot].read in ("string", "bytes")


def gatherer(fetches: tuple[Fetch, ...]) -> Callable[[Event, bytes | memoryview], Fetched]:
    beyond = Struct(f"<{max(0, len(fetches) - FIXED)}Q")
    in_memory = [slot for slot in range(len(fetches)) if lies_in_memory(slot, fetches)]

    def gather(event: Event, blob: bytes | memoryview) -> Fetched:
        words = FIXED_WORDS(event)
        position = beyond.size
        faults = event.faults
        if position > len(blob):  # damaged
            return Fetched(words, {}, (1 << len(fetches)) - 1, event.pid)
        if position:
            words += beyond.unpack_from(blob)
        pieces: dict[int, bytes | memoryview] = {}
        for slot in in_memory:
            if not faults >> slot & 1:
                size = words[slot] & 0xFFFF_FFFF
                pieces[slot] = blob[position : position + size]
                position += size
        return Fetched(words, pieces, faults, event.pid)

    return gather
