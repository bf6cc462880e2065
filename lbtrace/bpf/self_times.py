"""What calls that are timed took themselves: bpf_src/nesting.h."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject


def read_self_times(loaded: TraceObject) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield what bpf_src/nesting.h knows of a probe and a process (pid): how many calls
    returned, how long they took themselves, and how many have an unknown caller."""
    cpus = check(lib.libbpf_num_possible_cpus(), "count the CPUs")
    source, before, words = loaded.map("self_times"), ffi.NULL, 3
    cells, following = ffi.new("uint64_t[]", words * cpus), ffi.new("uint32_t[2]")
    while lib.bpf_map__get_next_key(source, before, following, 8) == 0:
        before = ffi.new("uint32_t[2]", [*following])
        if not lib.bpf_map__lookup_elem(source, before, 8, cells, ffi.sizeof(cells), 0):
            yield before[0], before[1], tuple(sum([*cells][n::words]) for n in range(words))
