"""Results of unoptimised functions that no caller uses.

Where the linker optimises what was compiled without optimisation (``clang -O0 -flto``), LLVM
returns nothing in the place of a result that no caller uses, and debug information does not say so.
The function then leaves nothing for its callers in the register before it returns; where it may
leave what it used last, or what another function returned to it, its callers show that they use it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.locations import OPTIMISED_OUT
from lbtrace.elf import symbols
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
    """What calls those of ``functions`` that other files cannot refer to, and does with the result.

    One that jumps there in the end (a tail call) uses the result if its own callers do.
    """

    def __init__(self, image: Image, machine: Machine, functions: Collection[int]) -> None:
        self._image = image
        self._machine = machine
        self._functions = frozenset(functions)
        self._known: set[int] = set()
        self._after: dict[int, list[bytes]] = defaultdict(list)
        self._jumping: dict[int, set[int]] = defaultdict(set)

    def use(self, address: int, register: str) -> bool | None:
        """Return whether callers certainly use what the function at ``address`` leaves in a
        ``register``; None where no code refers directly to it."""
        seen: set[int] = set()
        ahead = {address}
        found = False
        while ahead:
            self._find(ahead - self._known)
            after = [code for each in ahead for code in self._after.get(each, ())]
            if any(self._machine.uses_result(code, register) for code in after):
                return True
            seen |= ahead
            jumping = {start for each in ahead for start in self._jumping.get(each, ())} - seen
            found = found or bool(after or jumping)
            # What calls one to which other files can refer is not known.
            ahead = {start for start in jumping if self._is_local(start)}
        return False if found else None

    def _find(self, functions: Collection[int]) -> None:
        """Find what refers to some ``functions``; to all that may be asked for at once."""
        wanted = {*functions, *self._functions} - self._known if functions else set()
        if not wanted:
            return
        self._known |= wanted
        for segment in self._image.executable_segments:
            start = segment.address
            code = memoryview(self._image.code(start, segment.size))
            for _, after in self._machine.find_calls(code, start, wanted):
                at = after - start
                distance = int.from_bytes(code[at - TARGET_SIZE : at], "little", signed=True)
                self._after[after + distance].append(bytes(code[at : at + AFTER]))
            for jumping, target in self._machine.find_jumps(code, start, wanted, self._start):
                self._jumping[target].add(jumping)

    def _start(self, address: int) -> int | None:
        function = self._image.once(symbols.read).functions.holding(address)
        return None if function is None else function.address

    def _is_local(self, address: int) -> bool:
        function = self._image.once(symbols.read).functions.holding(address)
        return function is not None and function.local


def settle(
    machine: Machine,
    prototype: Prototype,
    code: Callable[[], Code],
    are_using: Callable[[str], bool | None],
) -> Prototype:
    """``prototype`` of a function that other files cannot refer to, without its result where that
    is not returned. Its callers ``are_using`` what it leaves in a register, or none is known."""
    register = _find_register(machine, prototype) if prototype.stores_all else ""
    if not register or prototype.result is None or machine.leaves_result(code(), register):
        return prototype
    if are_using(register) is not False:
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
