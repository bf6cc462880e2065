"""The reading end of the ring buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check, check_pointer
from lbtrace.model import Batch, Thread
from lbtrace.model.wire import EVENT_SIZE


class RingReader:
    """Takes events out of a ring buffer, ``capacity`` at a time; ``decoded_registers`` as in
    `make_values`."""

    def __init__(self, ring_fd: int, capacity: int, decoded_registers: Mapping[int, Any]) -> None:
        reader = check_pointer(lib.lbt_reader_new(ring_fd, capacity), "map the ring buffer")
        self._reader = ffi.gc(reader, lib.lbt_reader_free)
        self.make_values(decoded_registers)

    def fileno(self) -> int:
        """Readable when the ring is filling: see ``wakeup_bytes``."""
        return int(lib.lbt_reader_fd(self._reader))

    def make_values(self, decoded_registers: Mapping[int, Any]) -> None:
        """Let the values of probes be made as ``decoded_registers`` say (`lbtrace.bpf.recording`);
        to be called before their first event."""
        for probe, decoded in decoded_registers.items():
            check(lib.lbt_reader_make(self._reader, probe, decoded), "note how values are made")

    def drain(self) -> Batch | None:
        """Return the next events, or None where there are none."""
        reader = self._reader
        check(lib.lbt_reader_drain(reader), "read the ring buffer")
        if not reader.count:
            return None
        return Batch(
            events=ffi.buffer(reader.events, reader.count * EVENT_SIZE)[:],
            blobs=ffi.buffer(reader.blobs, reader.blob_size)[:] if reader.blob_size else b"",
            threads=tuple(map(_thread, reader.threads[0 : reader.thread_count]))
            if reader.thread_count
            else (),
            entries=reader.entries,
        )

    def close(self) -> None:
        """Unmap the ring."""
        ffi.release(self._reader)


def _thread(record: Any) -> Thread:
    name = ffi.string(record.runner.comm).decode(errors="replace")
    programs, inside = divmod(record.runner.inside, 1 << lib.LBT_INSIDE_BITS)
    return Thread(record.pid, record.tid, name, record.time, record.runner.born, inside, programs)
