"""The stubs through which a binary calls functions that the loader binds.

A stub ends in a jump through a slot of the GOT; the relocation of the slot
names the function (gabi, chapter 4). ``linking.py`` of each machine knows what stubs look like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.machine import Machine


class Stub(NamedTuple):
    """What a stub leads to. ``address`` is where the image itself defines it, or 0."""

    name: str
    address: int


def stubs(image: Image) -> dict[int, Stub]:
    """Return the stubs of an image, by their address."""
    slots = {slot: Stub(name, own) for slot, name, own in image.once(Dynamic).slots if name}
    return {address: slots[slot] for address, slot in jumps(image) if slot in slots}


def jumps(image: Image) -> Iterator[tuple[int, int]]:
    """Yield the addresses of all stubs, and of the slots through which they jump."""
    found = Machine(image.machine).linking.stubs
    for section in image.sections:
        if section.name.startswith(".plt"):
            yield from found(image.content(section), section.address)
