"""The stubs through which a binary calls functions that the loader binds.

A stub ends in a jump through a slot of the GOT; the relocation of the slot
names the function (gabi, chapter 4). ``linking.py`` of each machine knows what stubs look like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.machine import Machine


class Stub(Struct, frozen=True):
    """What a stub leads to. ``address`` is where the image itself defines it, or 0."""

    name: str
    address: int


class Stubs(Mapping[int, Stub]):
    """The stubs of an image, by their address. Few of many are asked for: only these are named."""

    def __init__(self, image: Image) -> None:
        self._dynamic = image.once(Dynamic)
        slots = self._dynamic.slots
        self._slots = dict(jumps(image))
        self._symbols = {at: slots[slot] for at, slot in self._slots.items() if slot in slots}

    def __getitem__(self, address: int) -> Stub:
        return Stub(*self._dynamic.bound(self._symbols[address]))

    def __contains__(self, address: object) -> bool:
        return address in self._symbols

    def __iter__(self) -> Iterator[int]:
        return iter(self._symbols)

    def __len__(self) -> int:
        return len(self._symbols)

    def behind(self, slot: int) -> Stub | None:
        """Return what the loader binds a slot of the GOT to, if it does."""
        symbol = self._dynamic.slots.get(slot)
        return Stub(*self._dynamic.bound(symbol)) if symbol else None

    def slot(self, address: int) -> int:
        """Return the slot of the GOT through which the stub at ``address`` jumps."""
        return self._slots[address]

    def is_pointed_to(self, address: int) -> bool:
        """Return whether the image may call what the stub at ``address`` leads to otherwise."""
        return self._symbols[address] in self._dynamic.pointed_to

    def resolver(self, address: int, slot: int) -> int:
        """Return where the function is that chooses what the stub at an address, or else a slot,
        leads to (STT_GNU_IFUNC); 0 where none does."""
        return self._dynamic.resolvers.get(self._slots.get(address, slot), 0)

    def wanted(self, wanted: Wanted) -> Iterator[tuple[int, str]]:
        """Yield where stubs are that lead to functions with ``wanted`` names, and the names; maybe
        more."""
        names = self._dynamic.wanted(wanted)
        return ((at, names[symbol]) for at, symbol in self._symbols.items() if symbol in names)


def stubs(image: Image) -> Stubs:
    """Return the stubs of an image."""
    return Stubs(image)


def jumps(image: Image) -> Iterator[tuple[int, int]]:
    """Yield the addresses of all stubs, and of the slots through which they jump."""
    found = Machine(image.machine).linking.stubs
    for section in image.sections:
        if section.name.startswith(".plt"):
            yield from found(image.content(section), section.address)
