"""Calls that are timed and of which it is not known inside of which ones they are:
bpf_src/nesting.h."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbtrace.bpf._libbpf import ffi, lib

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject


def read_unsure(loaded: TraceObject) -> dict[int, int]:
    """Return how many there are, by process (pid)."""
    source, before, found = loaded.map("unsure_calls"), ffi.NULL, dict[int, int]()
    following, calls = ffi.new("uint32_t *"), ffi.new("uint64_t *")
    while lib.bpf_map__get_next_key(source, before, following, 4) == 0:
        before = ffi.new("uint32_t *", following[0])
        if not lib.bpf_map__lookup_elem(source, before, 4, calls, 8, 0):
            found[before[0]] = calls[0]
    return found
