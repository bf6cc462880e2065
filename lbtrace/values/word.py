"""Words of unknown type."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.values.base import Decoder, Member, NativeForm
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import NIL, Address

LOWEST_ADDRESS = 1 << 16
"""The lowest address a program can map: ``vm.mmap_min_addr``."""

MAPPED = range(0x5000_0000_0000, 1 << 48)
"""Where Linux puts position-independent programs, their heaps, libraries and stacks
(ELF_ET_DYN_BASE and TASK_SIZE of x86-64, and of arm64 with 48-bit addresses)."""

HALVES = range(1 << 31, 1 << 32)
"""Words that a negative ``int`` leaves in a register; a large unsigned one leaves the same."""


class Half(Address):
    """A word in `HALVES`, as an address: how it is shown."""

    __slots__ = ()

    def beside(self, number: float) -> int:
        """See `Address.beside`: what an ``int`` was that has left it, beside what may be one."""
        return self - HALVES.stop if abs(number) <= HALVES.start else self


class Word(Integer, frozen=True, tag="word"):
    """Bytes of which the type is unknown: shown in hexadecimal where they look like an
    address of the program's memory, which unsigned ones do unless they are too small."""

    is_typed = False

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        # Only words of Go have no name: those of C are assumed to be a long.
        return [(NIL, Member("", self, 0), 0)] if self.size == 8 and not self.name else []

    def native_form(self) -> NativeForm:
        return "word" if self.size == 8 or (self.size < 8 and not self.signed) else ""

    def decoder(self) -> Decoder:
        integer = super().decoder()
        if self.signed:
            return lambda raw: (
                Half(raw) if raw in HALVES else Address(raw) if raw in MAPPED else integer(raw)
            )
        mask = (1 << 8 * self.size) - 1
        return lambda raw: raw & mask if raw & mask < LOWEST_ADDRESS else Address(raw & mask)


UNKNOWN = Word("long", 8, True)
"""What is assumed where no debug information gives the type."""

AUTO = Word("auto", 8, True)
"""The same of a result, where the mangled name gives the types of the parameters."""
