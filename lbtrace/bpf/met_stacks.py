"""The user stacks that action ``stacks`` has met: bpf_src/actions/stacks.h."""

from __future__ import annotations

from collections.abc import Container, Iterator
from struct import Struct as Layout
from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.bpf._libbpf import ffi, lib

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject

KEY = Layout("<Q")
FRAME = Layout("<QQQII")
"""struct lbt_stack_frame: address, offset, inode, device, flags."""


class MetStack(Struct, frozen=True):
    """A user stack: the `FRAME` of each function, the innermost first, and why it has no further
    ones (enum lbt_stack_end)."""

    frames: tuple[tuple[int, int, int, int, int], ...]
    end: int


def read_stacks(loaded: TraceObject, known: Container[bytes]) -> Iterator[tuple[bytes, MetStack]]:
    """Yield those that are not ``known``, each with its key: what `Aggregate.key` holds."""
    source, before = loaded.map("met_stacks"), ffi.NULL
    key, following = (ffi.new("char[]", KEY.size) for _ in range(2))
    stack, size = ffi.new("struct lbt_stack *"), ffi.sizeof("struct lbt_stack")
    frames = ffi.buffer(stack.frames)
    while lib.bpf_map__get_next_key(source, before, following, KEY.size) == 0:
        ffi.memmove(key, following, KEY.size)
        before, name = key, bytes(ffi.buffer(key)[0 : KEY.size])
        if name in known or lib.bpf_map__lookup_elem(source, key, KEY.size, stack, size, 0):
            continue
        found = FRAME.iter_unpack(frames[0 : stack.depth * FRAME.size])
        yield name, MetStack(tuple(found), stack.end)
