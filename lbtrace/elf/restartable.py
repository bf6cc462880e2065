"""Restartable sequences: code that the kernel has begin anew where it interrupted it.

By rseq(2) a thread announces instructions that count only as a whole, as those that add to a
processor's counter. Where the kernel interrupts the thread amid of them, it lets it continue at a
handler. Under a probe it executes an instruction elsewhere. Interrupted there, it takes the
sequence for over and forgets it, and the thread goes on with what it has read on another processor
(`rseq_ip_fixup` in kernel/rseq.c). Allocators (TCMalloc) and librseq have such sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout

from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory
from lbtrace.machine.restartable import Restartable, Sequences

SECTIONS = ("__rseq_cs", "__rseq_table")
"""Where descriptors are by custom: librseq and TCMalloc; kernel selftests before 2019."""

DESCRIPTOR = Layout("<IIQQQ")
"""``struct rseq_cs`` of include/uapi/linux/rseq.h: version, flags, start_ip, post_commit_offset,
abort_ip."""

MOST = 20_000
"""Descriptors that are read of each section."""


def find_sequences(image: Image) -> Sequences:
    """Return the restartable sequences of ``image``."""
    return Sequences(_sequences(image))


def _sequences(image: Image) -> Iterator[Restartable]:
    for section in map(image.section, SECTIONS):
        if section is None or not section.address:
            continue
        data = Memory(image).relocated(section.address, min(section.size, MOST * DESCRIPTOR.size))
        whole = data[: len(data) // DESCRIPTOR.size * DESCRIPTOR.size]
        for _, _, start, size, handler in DESCRIPTOR.iter_unpack(whole):
            if start:
                yield Restartable(start, start + size, handler)
