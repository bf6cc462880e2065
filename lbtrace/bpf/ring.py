"""The reading end of the ring buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check, check_pointer
from lbtrace.model import Batch, Thread
from lbtrace.model.wire import EVENT_SIZE

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject


class RingReader:
    """Takes events out of the ring buffer of a loaded object, at most ``capacity`` at a time;
    ``decoded_registers`` as in `make_values`."""

    def __init__(
        self, traced: TraceObject, capacity: int, decoded_registers: Mapping[int, Any]
    ) -> None:
        reader = lib.lbt_reader_new(traced.ring_fd(), traced.wake_at(), capacity)
        self._reader = ffi.gc(check_pointer(reader, "map the ring buffer"), lib.lbt_reader_free)
        self.make_values(decoded_registers)

    def is_filling(self) -> bool:
        """Whether the ring should be read soon."""
        return bool(lib.lbt_reader_is_filling(self._reader))

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Within, a ring that is filling wakes who waits at its descriptor."""
        lib.lbt_reader_sleep(self._reader)
        yield
        lib.lbt_reader_wake(self._reader)

    def make_values(self, decoded_registers: Mapping[int, Any]) -> None:
        """Let the values of probes be made as ``decoded_registers`` say (`lbtrace.bpf.recording`);
        to be called before their first event."""
        for probe, decoded in decoded_registers.items():
            check(lib.lbt_reader_make(self._reader, probe, decoded), "note how values are made")

    def drain(self, most: int) -> Batch | None:
        """Return the next events, ``most`` of them at most, or None where there are none."""
        reader = self._reader
        check(lib.lbt_reader_drain(reader, most), "read the ring buffer")
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
