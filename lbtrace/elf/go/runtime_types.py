"""The types of a Go program, by the hash that interfaces lead to.

The linker keeps all type descriptors together, between ``types`` and
``etypes`` of ``moduledata``. How they are listed differs by version, so they are recognised by
their content. Sources: Go's ``internal/abi/type.go`` (``Type``,
``Name``, ``UncommonType``), ``runtime/symtab.go``
(``moduledata``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from struct import Struct as Layout

from lbtrace.elf.go.pclntab import GoTable
from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory

TYPES_BY_VERSION = (((1, 27), 37, 39), ((1, 20), 37, 38), ((1, 16), 35, 36), ((0, 0), 25, 26))
"""From which version on, at which words of ``moduledata`` types begin and end."""

VARINT_SINCE = (1, 17)
"""The version from which on the length of a name is a varint, before two bytes."""

ALIGNMENTS = bytes(n in (1, 2, 4, 8) for n in range(256))
KINDS = bytes(0 < n & 31 <= 26 for n in range(256))
"""1 for each value that the bytes have which are two alignments and the kind of a type."""

LARGEST = 1 << 32
EXTRA_STAR = 2
"""``TFlagExtraStar``: the name is that of the pointer to the type."""

LONGEST_NAME = 1024

PLAIN_OFFSETS_SINCE = (1, 19)
"""The version from which on the offsets of fields are not shifted left by a bit."""

PLAIN_SIZE, TRAITS, HAS_METHODS = 48, 20, 1
"""Bytes of ``Type``; where its ``TFlag`` is, and ``TFlagUncommon`` in it."""

UNCOMMON = {17: 72, 19: 56, 22: 56, 23: 56, 25: 80}
"""Where ``UncommonType`` follows a type, by kind, if not after ``PLAIN_SIZE`` bytes."""

UNFOLLOWED = frozenset({18, 20, 21})
"""Channels, interfaces and maps, whose descriptors differ by version."""

POINTER_OR_STRUCT = frozenset({22, 25})

METHODS, METHOD = Layout("<IHHI"), 16
"""``UncommonType``: package, methods, exported ones, where they are. Bytes of a ``Method``."""


class TypeTable:
    """The descriptors of the types of a program, which lie between two addresses."""

    def __init__(self, image: Image, table: GoTable, version: tuple[int, int]) -> None:
        self.memory = Memory(image)
        known = version if version != (0, 0) else (99, 0)
        first, last = next((f, e) for since, f, e in TYPES_BY_VERSION if known >= since)
        self._start = self.memory.word(table.moduledata + 8 * first)
        end = self.memory.word(table.moduledata + 8 * last)
        size = end - self._start
        self._data = self.memory.read(self._start, size) if 0 < self._start < end else b""
        self._varint = known >= VARINT_SINCE
        self.offset_shift = int(known < PLAIN_OFFSETS_SINCE)

    def names(self) -> dict[int, tuple[str, int]]:
        """Return names and kinds by hash; empty where the descriptors are not found."""
        described = ((hash, self._own_name(*place), kind) for _, hash, place, kind in self._likely)
        return {hash: (name, kind) for hash, name, kind in described if name}

    def errors(self) -> list[tuple[int, int]]:
        """Return address and hash of the types that have a method ``Error``: those of the program
        itself first, then those of modules, those of Go's own packages last."""
        found = []
        for at, hash, place, kind in self._likely:
            package = self._package_of_error(at, kind)
            if package is not None and self._own_name(*place):
                order = 0 if package == "main" else 1 if "." in package else 2
                found.append((order, self._start + at, hash))
        return [(address, hash) for _, address, hash in sorted(found)]

    def own_structs(self) -> list[tuple[int, int]]:
        """Return address and hash of the structs that the program itself defines, and of the
        pointers to them."""
        own, own_bytes, data = ("main.", "*main."), (b"main.", b"*main.", b"**main."), self._data
        return [
            (self._start + at, hash)
            for at, hash, place, kind in self._likely
            if kind in POINTER_OR_STRUCT
            # After a byte of flags and one or two of the length.
            and (
                data.startswith(own_bytes, place[0] + 2) or data.startswith(own_bytes, place[0] + 3)
            )
            and self._own_name(*place).startswith(own)
        ]

    @cached_property
    def _likely(self) -> list[tuple[int, int, tuple[int, int], int]]:
        """Of what may be a descriptor, and is one if it has a name, where it lies, in bytes, its
        hash, what gives its name, and its kind."""
        data = self._data
        words = memoryview(data[: len(data) // 8 * 8]).cast("Q")
        found = []
        for at in _candidates(data, len(words) - 5):
            size, traits = words[at], words[at + 2]
            if size >= LARGEST or words[at + 1] > size:
                continue
            place = words[at + 5] & 0xFFFF_FFFF, traits >> 32
            found.append((8 * at, traits & 0xFFFF_FFFF, place, traits >> 56 & 31))
        return found

    def described_name(self, address: int) -> str:
        """Return the name of the type whose descriptor is at an address."""
        words = self.memory.read(address, PLAIN_SIZE)
        if len(words) < PLAIN_SIZE:
            return ""
        return self._own_name(int.from_bytes(words[40:44], "little"), words[TRAITS])

    def _own_name(self, at: int, traits: int) -> str:
        name = self.name(at)
        return name[1:] if traits & EXTRA_STAR and name.startswith("*") else name

    def name_at(self, address: int) -> str:
        """Return the name at an address, or ``""`` where there is none."""
        return self.name(address - self._start)

    def name(self, at: int) -> str:
        """Return the name at an offset into the types, or ``""`` where there is none."""
        data = self._data
        if not 0 < at < len(data) - 3 or data[at] > 15:
            return ""
        length, start = data[at + 1] << 8 | data[at + 2], at + 3
        if self._varint:
            length, start = data[at + 1] & 0x7F, at + 2
            if data[at + 1] > 0x7F:
                length, start = length | data[at + 2] << 7, at + 3
        if not 0 < length <= LONGEST_NAME:
            return ""
        try:
            name = data[start : start + length].decode()
        except UnicodeDecodeError:
            return ""
        return name if name.isprintable() else ""

    def _package_of_error(self, at: int, kind: int) -> str | None:
        """The package of the type at an offset; None where it has no method ``Error``."""
        data, into = self._data, UNCOMMON.get(kind, PLAIN_SIZE)
        if kind in UNFOLLOWED or not data[at + TRAITS] & HAS_METHODS:
            return None
        if at + into + METHODS.size > len(data):
            return None
        package, count, _, methods = METHODS.unpack_from(data, at + into)
        first = at + into + methods
        for place in range(first, min(first + METHOD * count, len(data) - 3), METHOD):
            name = self.name(int.from_bytes(data[place : place + 4], "little"))
            if name >= "Error":  # they are sorted
                return self.name(package) if name == "Error" else None
        return None


def _candidates(data: bytes, limit: int) -> Iterator[int]:
    """Yield at which words of ``data`` less than ``limit`` a type may be described, by three of its
    bytes."""
    both = -1
    for into, fits in ((1, ALIGNMENTS), (2, ALIGNMENTS), (3, KINDS)):
        both &= int.from_bytes(data[TRAITS + into :: 8].translate(fits), "little")
    found = both.to_bytes(len(data) // 8 + 1, "little")
    at = found.find(1)
    while 0 <= at < limit:
        yield at
        at = found.find(1, at + 1)
