"""What the kernel sends, and what is lost."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from msgspec import Struct, field

from lbtrace.model.wire_limits import INSIDE_BITS


class Event(Struct, gc=False):
    """One hit of a probe, as the kernel program sends it (``bpf_src/wire.h``).

    ``time`` is CLOCK_MONOTONIC in ns. ``frame`` is the stack pointer at the
    function's entry and so identifies the call. ``lane`` is the goroutine, the number of a stack
    that the program made, or 0 for the thread. ``kind`` is `OPEN` (a call begins), `CLOSE` (one
    ends), `POINT` (anything else), `LOSS`, `UNPROBED`, `UNWOUND`, `FORK`, `EXEC`, `INTERRUPT` or
    `OFF_CPU`, in
    the bits `KIND`. Of the others, `UNHOOKED` says that no return of this call will be seen,
    because hooking it would have dropped returns of others, or the kernel keeps as many as it can,
    or that this is one more hit within a call that was hooked; `ON_ALTSTACK` that it is on the
    thread's alternate signal stack (``sigaltstack``; all of these are from
    ``lbtrace.model.wire_limits``). Bit *n* of ``faults`` says that value *n* could not be read,
    ``cpu`` which processor the probe was hit on.

    An event of kind `LOSS` counts by kind the events that the lane has lost since its last one
    (`lost_events`): it comes just before the next one, with its time and place, or at the end of a
    trace. One of kind `UNPROBED` belongs to no thread or probe: from its time on returns may not
    be seen, for good, or where ``value0`` is not 0, until then. One of kind `UNWOUND` says that the
    calls of its frame and below it were left before then, as a hit showed that is not recorded. One
    of kind `FORK` says that its thread forks a process (`forked_thread`), where ``frame`` is the
    stack pointer: it comes before all events of that. One of kind `EXEC` says that its process has
    executed a program (`executed_programs` is how many). One of kind `INTERRUPT` says that a
    handler begins on the thread's alternate signal stack, where the stack pointer was ``frame``.
    One of kind `OFF_CPU` says how long the thread was blocked and runnable so far.

    ``blob`` is the
    length of the bytes that accompany the event: the values after the sixth, eight bytes each, then
    the strings and bytes, in the order of their fetches. The values are raw registers or memory,
    zero-extended to 64 bits; of a string the number of its bytes in the blob in the low half, its
    true length (2**32 - 1: unknown) in the high half.
    """

    time: int
    frame: int
    lane: int
    probe: int
    pid: int
    tid: int
    kind: int
    faults: int
    cpu: int
    blob: int
    value0: int
    value1: int
    value2: int
    value3: int
    value4: int
    value5: int


def lost_events(event: Event) -> tuple[int, int, int, int]:
    """Return the numbers of lost events in an event of kind `LOSS`: by their kind, and at position
    0 those that may have been closes or points, which captures up to version 3 do not
    distinguish."""
    low = 0xFFFF_FFFF
    return event.value0 & low, event.value0 >> 32, event.value1 & low, event.value1 >> 32


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


def forked_thread(event: Event, name: str) -> tuple[Thread, bool]:
    """Return the first thread of the process that an event of kind `FORK` is about, which has the
    ``name`` of the one that forks it, and whether it continues the calls of that one: not if it
    has another stack."""
    low, shift = 0xFFFF_FFFF, 32
    pid, life = event.value0 & low, event.value0 >> shift
    programs, inside = divmod(event.value1 & low, 1 << INSIDE_BITS)
    continues = bool(event.value1 >> shift)
    return Thread(pid, pid, name, event.time, life, inside, programs), continues


def executed_programs(event: Event) -> int:
    """Return how many programs the process has executed of an event of kind `EXEC`, as
    `Thread.programs` has it."""
    return (event.value0 & 0xFFFF_FFFF) >> INSIDE_BITS


class Batch(Struct):
    """Events in the order the ring buffer held them, undecoded.

    ``events`` holds fixed-size records, ``blobs`` the bytes that accompany
    them, one after the other, ``threads`` the names first seen or changed, ``entries`` says how
    many of the events begin a call. Where there is a ``gap``, batches before this one are missing.
    """

    events: bytes | memoryview
    blobs: bytes | memoryview = b""
    threads: tuple[Thread, ...] = ()
    entries: int = 0
    gap: bool = False


KERNEL_FILE = "[kernel]"
"""In place of the file of a frame in the kernel itself."""


class Frame(Struct, frozen=True):
    """A place of a stack, ``offset`` bytes behind the start of the function ``name`` in the
    file ``binary``. Without a name ``offset`` is the place in the file, or without a file, or in
    the kernel, the address. ``guessed``: it was found by a frame pointer, without a table that says
    there is one. In place of a file, frames of the kernel have `KERNEL_FILE`, those of its modules
    their name in brackets. Where it was asked for and is known, it is at a ``line`` of the file
    ``source``, else 0 and empty. A function ``inlined`` in the frame below it, the next one, has
    no offset of its own.
    """

    name: str
    offset: int
    binary: str = ""
    guessed: bool = False
    inlined: bool = False
    source: str = ""
    line: int = 0

    @property
    def module(self) -> str:
        """The mark of a frame of the kernel: ``[k]`` or its module in brackets; empty of others."""
        if self.binary == KERNEL_FILE:
            return "[k]"
        return self.binary if self.binary.startswith("[") else ""

    @property
    def where(self) -> str:
        """What is shown of it behind its name: `` (inlined) at prog.c:12``; empty of others."""
        mark = " (inlined)" if self.inlined else ""
        return f"{mark} at {os.path.basename(self.source)}:{self.line}" if self.line else mark


Counted: TypeAlias = Literal["call", "point", "stretch"]
"""What is aggregated: calls, hits of places, stretches in which threads were blocked."""


class Aggregate(Struct, frozen=True, gc=False):
    """What the kernel has aggregated from the hits of a probe in a process.

    ``count`` is their number, ``words`` what else the probe's action aggregates, numbers of 64
    bits; ``key`` are the further bytes of the key by which it does. The action's table says
    what they mean (`lbtrace.tables`). ``stack`` are positions in `Aggregates.frames`, the innermost
    first, where it aggregates by stacks, and ``end`` says why there are no further ones:
    ``END_OUTERMOST`` and others in `lbtrace.model.wire_limits`.
    """

    probe: int
    pid: int
    count: int
    words: tuple[int, ...] = ()
    key: bytes = b""
    stack: tuple[int, ...] = ()
    end: int = 0


class Aggregates(Struct):
    """All that has been aggregated from the beginning of the trace until ``time``
    (CLOCK_MONOTONIC, ns): later ones replace earlier ones. Where durations are aggregated,
    ``unsure`` has for processes (pid) of how many calls it is not known inside of which ones they
    are. ``frames`` are those of stacks."""

    time: int
    rows: tuple[Aggregate, ...] = ()
    unsure: dict[int, int] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()


class Losses(Struct):
    """What was lost, by cause.

    * ``ring_full_entry``, ``ring_full_return``: entries and returns for which the ring buffer
      had no room; ``ring_full_point``: hits of other probes.
    * ``nested_miss``: hits of probes, forks and the like that the kernel skipped, inside of another
      one.
    * ``return_depth``: returns the kernel does not deliver because 64 calls that some tool traces
      were already open in the thread.
    * ``unhooked``: returns of the kernel's functions that it did not hook, as more of their calls
      were open than it keeps, in all processes (Linux 6.8).
    * ``string_fault``, ``blob_too_long``: values that could not be read, or were too long; their
      calls are shown, without them.
    * ``uncounted``: hits for which no counter was free.
    * ``stacks``: callers of calls for which there was no memory, or no room in the ring buffer.
    * ``switch_missed``: how often a thread left a processor, or came back to one, without notice by
      the kernel: the calls that were open then have no ``blocked`` and ``runnable``.
    * ``unwritten``: events that waited to be written when Ctrl-C ended the trace.

    Not lost, but not shown either are calls that conditions on results and durations could not be
    about: ``uncompared_tail`` jumped to a function whose return is not watched, ``uncompared_open``
    were left by an exception, longjmp or the like, or are still open; of ``unsplit`` it is not
    known how long they were blocked or runnable. ``uncomputed`` are operations of expressions that
    have no result, divisions by 0 and shifts too far: no condition on them holds. ``in_interrupt``
    are calls of the kernel's functions by interrupts, which the thread that they interrupt has not
    made.

    ``events`` counts those that are not shown at all, ``total`` also values.
    """

    ring_full_entry: int = 0
    ring_full_return: int = 0
    nested_miss: int = 0
    return_depth: int = 0
    string_fault: int = 0
    blob_too_long: int = 0
    ring_full_point: int = 0
    uncounted: int = 0
    unwritten: int = 0
    uncompared_tail: int = 0
    uncompared_open: int = 0
    uncomputed: int = 0
    stacks: int = 0
    in_interrupt: int = 0
    unhooked: int = 0
    unsplit: int = 0
    switch_missed: int = 0

    @property
    def events(self) -> int:
        """Events that are not shown."""
        full = self.ring_full_entry + self.ring_full_return + self.ring_full_point
        full += self.nested_miss + self.return_depth + self.unhooked
        return full + self.uncounted + self.unwritten

    @property
    def total(self) -> int:
        """All that is missing, events and values."""
        values = self.string_fault + self.blob_too_long + self.stacks + self.switch_missed
        return self.events + values
