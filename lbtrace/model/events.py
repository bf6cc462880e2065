"""What the kernel sends, and what is lost."""

from __future__ import annotations

from msgspec import Struct

ENTRY, RETURN, LOSS = 1, 2, 3
"""Values of `Event.kind`."""


class Event(Struct, gc=False):
    """One hit of a probe, as the kernel program sends it (``bpf_src/lbtrace.h``).

    ``time`` is CLOCK_MONOTONIC in ns. ``frame`` is the stack pointer at the
    function's entry and so names the call. ``goroutine`` is 0 outside Go.
    ``kind`` is `ENTRY`, `RETURN` or `LOSS`; bit *n* of ``faults`` says that value *n*
    could not be read. ``lost`` counts the events this thread lost just before
    this one, entries in the high half, returns in the low one; an event of
    kind `LOSS` does nothing else, at the end of a trace. ``blob`` is the
    length of the bytes that accompany the event: the values behind the sixth,
    eight bytes each, then the strings and bytes, in the order of their
    fetches. The values are raw registers or memory,
    zero-extended to 64 bits; of a string the number of its bytes in the blob
    in the low half, its true length (2**32 - 1: unknown) in the high half.
    """

    time: int
    frame: int
    goroutine: int
    probe: int
    pid: int
    tid: int
    kind: int
    faults: int
    lost: int
    blob: int
    value0: int
    value1: int
    value2: int
    value3: int
    value4: int
    value5: int


class Thread(Struct, frozen=True):
    """The name (comm) of a thread, from ``time`` on.

    ``life`` is another number where the kernel gave the same ``tid`` to a new
    thread, 0 if not known; ``programs`` counts what its process has executed
    (modulo 1024). ``inside`` is its number in the innermost pid namespace it is
    in, 0 if that is the reader's.
    """

    pid: int
    tid: int
    name: str
    time: int = 0
    life: int = 0
    inside: int = 0
    programs: int = 0


class Batch(Struct):
    """Events in the order the ring buffer held them, undecoded.

    ``events`` holds fixed-size records, ``blobs`` the bytes that accompany
    them, one behind the other, ``threads`` the names first seen or changed,
    ``entries`` says how many of the events begin a call.
    """

    events: bytes | memoryview
    blobs: bytes | memoryview = b""
    threads: tuple[Thread, ...] = ()
    entries: int = 0


class Losses(Struct):
    """What was not seen, by cause.

    The first three are events that never arrived. ``return_depth`` are
    returns the kernel does not deliver because 64 traced calls were already
    open in the thread. ``string_fault`` and ``blob_too_long`` are values, not
    events: their calls are shown, without them.
    """

    ring_full_entry: int = 0
    ring_full_return: int = 0
    nested_miss: int = 0
    return_depth: int = 0
    string_fault: int = 0
    blob_too_long: int = 0

    @property
    def events(self) -> int:
        """Events that never arrived."""
        return self.ring_full_entry + self.ring_full_return + self.nested_miss + self.return_depth

    @property
    def total(self) -> int:
        """All that is missing, events and values."""
        return self.events + self.string_fault + self.blob_too_long
