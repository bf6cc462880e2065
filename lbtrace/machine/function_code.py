"""The code of a function, and what following it needs of the binary around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from lbtrace.machine.code import Code

PARTS = 64
"""Parts of one function that are followed, at most."""


class Body(Struct, frozen=True):
    """The code of a function: its ``parts``, of which the first begins where it is called,
    and the ``pads`` where it continues after exceptions."""

    parts: tuple[Code, ...]
    pads: tuple[int, ...] = ()


class Around(Protocol):
    """What following a function's code needs of the binary around it."""

    @property
    def settled(self) -> bool:
        """Whether answers of `ends` stay as they are."""

    def more(self, address: int) -> Code | None:
        """Return the code at an address that the function jumps to and that is none of its own
        yet; None where another function begins there, or no code is."""

    def landing_pads(self, part: Code) -> Sequence[int]:
        """Return where the code that `more` gave continues after exceptions."""

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes at ``address`` that the program cannot change; fewer, or none,
        where there are none."""

    def word(self, address: int) -> int | None:
        """Return the 64-bit word at ``address`` as the loader leaves it; None where that is not
        known before it runs."""

    def ends(self, address: int, pointer: bool = False) -> bool:
        """Return whether the function at ``address`` never returns; with ``pointer`` the one to
        which the word at ``address`` leads."""


class Extent:
    """The parts of a function's code, as they become known."""

    def __init__(self, parts: Sequence[Code], around: Around) -> None:
        self.parts = list(parts)
        self._around = around
        self._last: Code | None = None
        """The part that was asked for last: the next is mostly the same."""

    def part(self, address: int) -> Code | None:
        """Return the part that holds ``address``."""
        part = self._last
        if part is not None and part.address <= address < part.address + len(part.code):
            return part
        for part in self.parts:
            if part.address <= address < part.address + len(part.code):
                self._last = part
                return part
        return None

    def raw_of(self, address: int, size: int) -> tuple[bytes, int]:
        """Return ``size`` bytes of the function's code, and their position in the file."""
        part = self.part(address)
        assert part is not None
        into = address - part.address
        return part.code[into : into + size], part.offset + into

    def knows(self, address: int) -> bool:
        """Return whether ``address`` is in the function's code; looks for more of it, if need
        be."""
        if self.part(address) is None and len(self.parts) < PARTS:
            part = self._around.more(address)
            if part is not None:
                self.parts.append(part)
        return self.part(address) is not None

    def follow_all(
        self,
        given: int,
        pads: Sequence[int],
        follow: Callable[[int], None],
        follow_computed: Callable[[], None],
    ) -> None:
        """Have code followed from ``pads``, then computed jumps, and both again as long as parts
        become known besides the first ``given`` ones that have landing pads of their own."""

        def landing_pads() -> list[int]:
            nonlocal given
            new, given = self.parts[given:], len(self.parts)
            return [pad for part in new for pad in self._around.landing_pads(part)]

        ahead = [*pads, *landing_pads()]
        while True:
            while ahead:
                for pad in ahead:
                    if self.knows(pad):
                        follow(pad)
                ahead = landing_pads()
            follow_computed()
            ahead = landing_pads()
            if not ahead:
                return

    def is_within(self, address: int) -> bool:
        """Return whether ``address`` is in the function's code, and no part of it begins there."""
        part = self.part(address)
        return part is not None and all(address != part.address for part in self.parts)
