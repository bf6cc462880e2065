"""The tables by which BPF programs walk stacks, in the maps of bpf_src/stack."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check

WORD = 4
CHUNK = 1 << 18
"""Words of a chunk: twice LBT_CHUNK of bpf_src/stack/table.h."""

CHUNKS = 64
"""Chunks that there is room for."""

BY_TABLE, BY_POINTER, BY_GUESS = 1, 2, 3
"""enum lbt_stack_how of bpf_src/stack/mapping.h."""


TABLE_MAPS = ("met_files", "stack_rows", "stack_rules", "stack_tables")

STACK_MAPS = (*TABLE_MAPS, "known_mappings", "stack_walks", "cpu_walks", "blocked_threads")
"""Maps that only walks of stacks need."""


def leave_out_maps(handle: Any) -> None:
    """Let an object that is to be loaded do without these maps."""
    for name in STACK_MAPS:
        found = lib.bpf_object__find_map_by_name(handle, name.encode())
        if found != ffi.NULL:
            check(lib.bpf_map__set_autocreate(found, False), "choose maps")


class MetFile(Struct, frozen=True):
    """A file that stacks have met: device (``major << 20 | minor``) and inode as the kernel has
    them, and where the process ``pid`` (of the initial namespace) has mapped it."""

    device: int
    inode: int
    start: int
    end: int
    pid: int


class StackTables:
    """Files tables in the maps of the programs, each where the former one ends: at word ``next``.
    Raises `KernelError`."""

    def __init__(self, map_of: Callable[[str], Any]) -> None:
        self.next = 0
        self._maps = maps = {name: map_of(name) for name in TABLE_MAPS}
        self._rules = 0
        self._chunks: list[mmap.mmap] = []
        rules = maps["stack_rules"]
        self._rule_size = int(lib.bpf_map__value_size(rules))
        size = self._rule_size * int(lib.bpf_map__max_entries(rules))
        self._shared = mmap.mmap(lib.bpf_map__fd(rules), size)

    def close(self) -> None:
        """Unmap what is written to; the programs keep the maps."""
        for each in (*self._chunks, self._shared):
            each.close()

    def add_rules(self, rules: bytes) -> None:
        """Add rules: before rows that refer to them."""
        place = self._rules * self._rule_size
        self._shared[place : place + len(rules)] = rules
        self._rules += len(rules) // self._rule_size

    @property
    def is_half_full(self) -> bool:
        """Whether half of the room is taken."""
        return self.next > CHUNKS * CHUNK // 2

    @property
    def rules(self) -> int:
        """How many rules there are."""
        return self._rules

    def add(
        self, device: int, inode: int, how: int, words: bytes = b"", pages: tuple[int, int] = (0, 0)
    ) -> None:
        """Let stacks be walked through a file by the ``words`` of its table, which are about
        ``pages``: the first one, and how many. Where there is no room, stacks end there."""
        first, count = pages if self._write(words) else (0, 0)
        key = ffi.new("uint64_t[2]", [inode, device])
        value = ffi.new("uint32_t[4]", [how, self.next, first, count])
        code = lib.bpf_map__update_elem(self._maps["stack_tables"], key, 16, value, 16, 0)
        check(code, "file a table")
        lib.bpf_map__delete_elem(self._maps["met_files"], key, 16, 0)
        if count:
            self.next += (len(words) // WORD + 1) & ~1  # the next one begins at a pair of words

    def met(self) -> Iterator[MetFile]:
        """Yield the files that stacks have met and of which there is no table, once each."""
        source, before = self._maps["met_files"], ffi.NULL
        key, following, value = (ffi.new(f"uint64_t[{size}]") for size in (2, 2, 3))
        found = []
        while lib.bpf_map__get_next_key(source, before, following, 16) == 0:
            key[0], key[1], before = following[0], following[1], key
            if not lib.bpf_map__lookup_elem(source, key, 16, value, 24, 0):
                start, end, pid = value
                found.append(MetFile(key[1], key[0], start, end, pid & 0xFFFF_FFFF))
        yield from found

    def forget(self, met: MetFile) -> None:
        """Let a file be met again: nobody could open it."""
        key = ffi.new("uint64_t[2]", [met.inode, met.device])
        lib.bpf_map__delete_elem(self._maps["met_files"], key, 16, 0)

    def _write(self, words: bytes) -> bool:
        """Write words from the next one on; False where there is no room."""
        if self.next + len(words) // WORD > CHUNKS * CHUNK:
            return False
        at = self.next * WORD
        while words:
            number, place = divmod(at, CHUNK * WORD)
            while len(self._chunks) <= number:
                self._chunks.append(self._add_chunk(len(self._chunks)))
            piece = words[: CHUNK * WORD - place]
            self._chunks[number][place : place + len(piece)] = piece
            words, at = words[len(piece) :], at + len(piece)
        return True

    def _add_chunk(self, number: int) -> mmap.mmap:
        options = ffi.new("struct bpf_map_create_opts *")
        options.sz = ffi.sizeof("struct bpf_map_create_opts")
        options.map_flags = lib.BPF_F_MMAPABLE
        pairs = CHUNK // 2
        made = lib.bpf_map_create(lib.BPF_MAP_TYPE_ARRAY, b"stack_chunk", 4, 8, pairs, options)
        descriptor = check(made, "make a map for a table")
        try:
            key, value = ffi.new("uint32_t *", number), ffi.new("uint32_t *", descriptor)
            code = lib.bpf_map__update_elem(self._maps["stack_rows"], key, 4, value, 4, 0)
            check(code, "add a map for a table")
            return mmap.mmap(descriptor, CHUNK * WORD)
        finally:
            os.close(descriptor)
