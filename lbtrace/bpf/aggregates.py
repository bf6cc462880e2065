"""The maps in which actions aggregate: how much room they have, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from errno import ENOENT, ENOSPC
from struct import Struct as Layout
from typing import Any, TypeAlias

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.features import finds_mappings
from lbtrace.bpf.gate import check
from lbtrace.bpf.specs import Specs
from lbtrace.errors import KernelError
from lbtrace.model import Aggregate

AGGREGATES = 16384
"""Keys (a probe, a process) at which an action may aggregate, or as many as there are probes, if
these are more; what has no room is counted."""

BUCKETS = 65536
"""The same of keys that are made of values, and of histograms, which have many for a probe and a
process."""

AGGREGATE_BYTES = 64 << 20
"""Memory that what an action aggregates may take, on all CPUs: there are fewer keys where it has
many words."""

ROOMS = 16384
"""Calls whose key is made of values at a time, those included that were left unseen."""

MEASURE_SIZE = 5 * 8
"""Bytes of a ``struct measure`` of bpf_src/actions/count.h."""

EXCHANGE, ADDITION = (bytes((0xDB, 0x21, 0, 0, operation, 0, 0, 0)) for operation in (0xF1, 0))
"""``r0 = cmpxchg_64(r1, r0, r2)`` of bpf_src/actions/count.h, which kernels before 5.12 refuse, run
or not; and what stands in its place where it is not run."""

BATCH = 4096
"""Keys that are read at once."""

Merge: TypeAlias = Callable[[Sequence[Sequence[int]]], tuple[int, ...]]
"""Makes one of the words that each CPU has aggregated: `lbtrace.tables.Table.merge`."""


def shape(target: Any, action: str, specs: Specs) -> int:
    """Give the map of an action as much room for keys and values as these specs need; return how
    many keys it takes. Raises `KernelError` where the kernel lacks what is asked for."""
    if specs.extremes and not finds_mappings():
        raise KernelError("this kernel keeps no minimum and maximum", "they need Linux 5.17")
    if action == "stacks":  # has keys of its own
        cpus = int(lib.libbpf_num_possible_cpus())
        return min(BUCKETS, AGGREGATE_BYTES // (int(lib.bpf_map__value_size(target)) * cpus))
    key = ffi.sizeof("struct lbt_simple_key")
    if specs.rooms:
        texts = (lib.LBT_KEY_TEXTS - specs.key_texts) * lib.LBT_SMALL_CHUNK
        key = ffi.sizeof("struct lbt_aggregate_key") - texts
        check(lib.bpf_map__set_type(target, lib.BPF_MAP_TYPE_HASH), "share the counts")
    check(lib.bpf_map__set_key_size(target, key), "size the keys")
    value = int(lib.bpf_map__value_size(target))
    if action == "count":
        value -= (int(lib.LBT_MEASURES) - specs.measures) * MEASURE_SIZE
    check(lib.bpf_map__set_value_size(target, value), "size the counts")
    cpus = 1 if specs.rooms else int(lib.libbpf_num_possible_cpus())
    most = BUCKETS
    if not specs.rooms and action == "count":
        most = max(AGGREGATES, len(specs.cookies))
    return max(1, min(most, AGGREGATE_BYTES // (int(key) + value * cpus)))


def read(source: Any, merge: Merge, *, shared: bool) -> Iterator[Aggregate]:
    """Yield what a map holds by now, which all CPUs have ``shared`` or each has of its own."""
    cpus = 1 if shared else check(lib.libbpf_num_possible_cpus(), "count the CPUs")
    words = int(lib.bpf_map__value_size(source)) // 8
    value = Layout(f"={words * cpus}Q")
    key = Layout(f"=II{int(lib.bpf_map__key_size(source)) - 8}s")
    starts = range(1, words * cpus, words)
    for cells in batches(source, value.size):
        found = zip(*(map(Layout.iter_unpack, (key, value), cells)), strict=True)
        if shared:
            yield from [Aggregate(probe, pid, n[0], n[1:], rest) for (probe, pid, rest), n in found]
            continue
        for (probe, pid, rest), numbers in found:
            added = merge([numbers[at : at + words - 1] for at in starts]) if words > 1 else ()
            yield Aggregate(probe, pid, sum(numbers[::words]), added, rest)


def count_open(calls: Any) -> int:
    """Return how many calls there are in the map of those that have been entered and not yet
    returned, but for those that count as left out or left."""
    value = ffi.sizeof("struct lbt_open_call")
    return sum(
        call.spec != lib.LBT_LEFT_OUT
        for _, cells in batches(calls, value)
        for call in ffi.from_buffer("struct lbt_open_call[]", cells)
    )


def batches(source: Any, value: int) -> Iterator[tuple[Any, Any]]:
    """Yield the keys of a map and its values, of so many bytes each, many at once: each time in the
    same memory."""
    size, entries = int(lib.bpf_map__key_size(source)), int(lib.bpf_map__max_entries(source))
    most = min(BATCH, entries)
    keys, values = ffi.new("char[]", size * most), ffi.new("char[]", value * most)
    places = [ffi.new("uint32_t *"), ffi.new("uint32_t *")]
    count, before, descriptor = ffi.new("uint32_t *"), ffi.NULL, lib.bpf_map__fd(source)
    ended = False
    while not ended:
        count[0] = most
        code = lib.bpf_map_lookup_batch(
            descriptor, before, places[0], keys, values, count, ffi.NULL
        )
        if code == -ENOSPC and most < entries:  # a bucket has more
            most = entries
            keys, values = ffi.new("char[]", size * most), ffi.new("char[]", value * most)
            continue
        ended = code == -ENOENT
        if not ended:
            check(code, "read what was counted")
        yield ffi.buffer(keys, size * count[0]), ffi.buffer(values, value * count[0])
        places.reverse()
        before = places[1]
