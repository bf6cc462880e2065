"""Results of unoptimised functions that no caller uses.

Where the linker optimises what was compiled without optimisation (``clang -O0 -flto``), LLVM
returns nothing in the place of a result that no caller uses, and debug information does not say so.
The function then leaves nothing for its callers in the register before it returns; where it may
leave what it used last, or what another function returned to it, its callers show that they use it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.locations import OPTIMISED_OUT
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.model import Fetch, Prototype

AFTER = 64
"""Bytes of code after a call within which a result is used."""

TARGET_SIZE = 4
"""Bytes at the end of a call that are the distance of what it calls from there."""

LARGEST = 1 << 14
"""Bytes of a function's code that are read, at most."""


class Callers:
    """The code after the calls of those of ``functions`` that other files cannot refer to."""

    def __init__(self, image: Image, machine: Machine, functions: Collection[int]) -> None:
        self._image = image
        self._machine = machine
        self._functions = frozenset(functions)
        self._found: dict[int, list[bytes]] | None = None

    def following(self, address: int) -> Sequence[bytes]:
        """Return the code after each call of the function at ``address``."""
        if self._found is None:
            self._found = self._find()
        return self._found.get(address, ())

    def _find(self) -> dict[int, list[bytes]]:
        found: dict[int, list[bytes]] = defaultdict(list)
        for segment in self._image.executable_segments:
            start = segment.address
            code = memoryview(self._image.code(start, segment.size))
            for _, after in self._machine.find_calls(code, start, self._functions):
                at = after - start
                distance = int.from_bytes(code[at - TARGET_SIZE : at], "little", signed=True)
                found[after + distance].append(bytes(code[at : at + AFTER]))
        return found


def settle(
    machine: Machine,
    prototype: Prototype,
    code: Callable[[], Code],
    callers: Callable[[], Sequence[bytes]],
) -> Prototype:
    """``prototype`` of a function that other files cannot refer to, without its result where that
    is not returned."""
    register = _find_register(machine, prototype) if prototype.stores_all else ""
    if not register or prototype.result is None or machine.leaves_result(code(), register):
        return prototype
    calls = callers()
    if not calls or any(machine.uses_result(after, register) for after in calls):
        return prototype
    return replace(prototype, result=replace(prototype.result, missing_reason=OPTIMISED_OUT))


def _find_register(machine: Machine, prototype: Prototype) -> str:
    """The register, of integers or floats, in which a result begins."""
    words = locate_values(machine.name, prototype).result.words
    if not words:
        return ""
    if isinstance(words[0], Fetch):
        return words[0].register
    held = words[0].removeprefix("float in ")
    return held if held.startswith("xmm") else ""
