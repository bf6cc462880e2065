"""What native code found of the instructions of an x86-64 function, looked up by address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from iced_x86 import Instruction

from lbtrace.machine._code_scan import ffi, lib


class Instructions:
    """The instructions that were reached, by their addresses; each decoded when it is needed."""

    def __init__(self, native: Any, decode: Callable[[int], Instruction]) -> None:
        self._native = native
        self._decode = decode
        self._made: dict[int, Instruction] = {}

    def get(self, ip: int) -> Instruction | None:
        """Return the one at ``ip``, if there is one."""
        found = self._made.get(ip)
        if found is None and ip >= 0 and lib.lbt_flow_length(self._native, ip):
            found = self._made[ip] = self._decode(ip)
        return found

    def __getitem__(self, ip: int) -> Instruction:
        found = self.get(ip)
        if found is None:
            raise KeyError(ip)
        return found

    def __contains__(self, ip: object) -> bool:
        return isinstance(ip, int) and ip >= 0 and lib.lbt_flow_length(self._native, ip) > 0

    def __len__(self) -> int:
        return int(lib.lbt_flow_taken(self._native, ffi.new("const uint64_t **")))

    def __iter__(self) -> Iterator[int]:
        return iter(self._addresses(0))

    def values(self, since: int = 0) -> Iterator[Instruction]:
        """Return them in the order in which they were reached."""
        return map(self.__getitem__, self._addresses(since))

    def _addresses(self, since: int) -> list[int]:
        addresses = ffi.new("const uint64_t **")
        count = lib.lbt_flow_taken(self._native, addresses)
        return ffi.unpack(addresses[0] + since, count - since) if count > since else []
