"""The processes that are followed besides the first, as programs know them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check


class FollowedPids:
    """The pids in the map ``followed``; programs add children, and take away what ends. Some may
    have ended."""

    def __init__(self, map: Any) -> None:
        self._map = map

    def add(self, pid: int) -> None:
        """Follow a process. Raises `KernelError`."""
        key = ffi.new("uint32_t *", pid)
        check(lib.bpf_map__update_elem(self._map, key, 4, key, 4, 0), "follow a process")

    def discard(self, pid: int) -> None:
        """Undo `add`, if the end of the process has not done so."""
        lib.bpf_map__delete_elem(self._map, ffi.new("uint32_t *", pid), 4, 0)

    def __contains__(self, pid: int) -> bool:
        key, value = ffi.new("uint32_t *", pid), ffi.new("uint32_t *")
        return not lib.bpf_map__lookup_elem(self._map, key, 4, value, 4, 0)

    def __iter__(self) -> Iterator[int]:
        pids: list[int] = []  # at once: what ends meanwhile would begin the walk again
        key, following, before = ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.NULL
        while lib.bpf_map__get_next_key(self._map, before, following, 4) == 0:
            key[0], before = following[0], key
            pids.append(key[0])
        return iter(pids)
