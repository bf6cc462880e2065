"""Reads BTF: the types of a kernel, of its modules, or of an object file.

Layouts: Documentation/bpf/btf.rst and include/uapi/linux/btf.h.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct as Layout
from typing import NamedTuple

from lbtrace.errors import LbtraceError

VMLINUX = "/sys/kernel/btf/vmlinux"
"""Where a kernel has its own BTF (Linux 5.4, ``CONFIG_DEBUG_INFO_BTF``)."""

MAGIC = 0xEB9F
HEADER = Layout("<HBBIIIII")
TYPE = Layout("<III")
ENTRY = Layout("<III")
PAIR = Layout("<II")
WORD = Layout("<I")

MOST = 1 << 20
"""Types of one description; a kernel has some 150,000 (``BTF_MAX_TYPE``)."""


class BtfError(LbtraceError):
    """BTF that is damaged."""


class Kind(IntEnum):
    """What a type is: ``BTF_KIND_*``."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


FIXED = {Kind.INT: 4, Kind.ARRAY: 12, Kind.VAR: 4, Kind.DECL_TAG: 4}
"""Bytes after a type of these kinds."""

EACH = {
    Kind.STRUCT: 12, Kind.UNION: 12, Kind.ENUM: 8, Kind.FUNC_PROTO: 8, Kind.DATASEC: 12,
    Kind.ENUM64: 12,
}  # fmt: skip
"""Bytes after a type of these kinds, for each member, constant, parameter or variable."""


class BtfType(NamedTuple):
    """A type: what its ``info`` says (how many ``entries`` follow it), and ``value``, its size in
    bytes or the number of the type that it leads to. ``flag`` means something else for each kind.
    What follows it begins ``at`` a place of the description that it is ``of``."""

    kind: Kind
    name: str
    entries: int
    flag: bool
    value: int
    at: int
    of: Btf


class Btf:
    """The types of one description, by their numbers; 0 is ``void``. Those of a module continue
    the numbers and the names of its ``base``, the kernel's."""

    def __init__(self, data: bytes, base: Btf | None = None) -> None:
        """Raises `BtfError` if ``data`` is damaged."""
        self._data = data
        self._base: Btf | None = base
        if len(data) < HEADER.size:
            raise _damaged()
        magic, version, _, size, types, type_bytes, names, name_bytes = HEADER.unpack_from(data)
        if magic != MAGIC or version != 1:
            raise _damaged()
        self._types, end = size + types, size + types + type_bytes
        self._names: int = size + names
        self._name_end: int = self._names + name_bytes
        if max(end, self._name_end) > len(data) or size < HEADER.size:
            raise _damaged()
        self._first = base.count if base else 1
        self._first_name: int = base.name_bytes if base else 0
        self.name_bytes: int = self._first_name + name_bytes
        self._positions = _positions(data, self._types, end)
        self.count: int = self._first + len(self._positions)

    def type(self, number: int) -> BtfType:
        """Return the type of that number. Raises `BtfError` if there is none."""
        if not number:
            return BtfType(Kind.VOID, "void", 0, False, 0, 0, self)
        if number < self._first and self._base is not None:
            return self._base.type(number)
        if not self._first <= number < self.count:
            raise _damaged()
        at = self._positions[number - self._first]
        name, info, value = TYPE.unpack_from(self._data, at)
        kind = Kind(info >> 24 & 0x1F)
        flag = bool(info >> 31)
        return BtfType(kind, self.text(name), info & 0xFFFF, flag, value, at + TYPE.size, self)

    def text(self, offset: int) -> str:
        """Return the string at ``offset``. Raises `BtfError` if there is none."""
        if offset < self._first_name and self._base is not None:
            return self._base.text(offset)
        start = self._names + offset - self._first_name
        end = self._data.find(b"\0", start, self._name_end)
        if end < 0:
            raise _damaged()
        return self._data[start:end].decode("utf-8", "replace")

    def find(self, name: str, *kinds: Kind) -> list[int]:
        """Return the numbers of the types called ``name``, of these kinds, or of any."""
        before = self._base.find(name, *kinds) if self._base else []
        found = before + [self._first + n for n in self._named(name)]
        return [n for n in found if not kinds or self.type(n).kind in kinds]

    def numbers(self, kind: Kind) -> Iterator[tuple[str, int]]:
        """Yield the names and numbers of the types of a kind, without those of the base."""
        data, first = self._data, self._first
        for number, at in enumerate(self._positions, first):
            if data[at + 7] & 0x1F == kind:
                yield self.text(WORD.unpack_from(data, at)[0]), number

    def _named(self, name: str) -> list[int]:
        """The places, among the types here, of those called ``name``."""
        wanted = self._offset(name)
        if wanted is None:
            return []
        data, sought = self._data, WORD.pack(wanted)
        return [n for n, at in enumerate(self._positions) if data[at : at + 4] == sought]

    def _offset(self, name: str) -> int | None:
        """Where the names, which a linker has made unique, have ``name``."""
        start, end = self._names, self._name_end
        at = self._data.find(b"\0%s\0" % name.encode(), start, end)
        if at >= 0:
            return at + 1 - start + self._first_name
        if self._base is None:
            return None
        return self._base._offset(name)

    def follow(self, layout: Layout, type: BtfType, count: int = 1) -> list[tuple[int, ...]]:
        """Return the ``count`` records of ``layout`` that follow a type of this description.
        Raises `BtfError` where there are fewer."""
        end = type.at + layout.size * count
        if end > len(self._data):
            raise _damaged()
        return list(layout.iter_unpack(self._data[type.at : end]))


def encoding(type: BtfType) -> int:
    """Return the bits ``BTF_INT_SIGNED`` and so on of an integer."""
    return type.of.follow(WORD, type)[0][0] >> 24 & 0xF


def elements(type: BtfType) -> tuple[int, int]:
    """Return the type of an array's elements, and how many there are."""
    element, _, count = type.of.follow(ENTRY, type)[0]
    return element, count


def members(type: BtfType) -> list[tuple[str, int, int, int]]:
    """Return of each member of a struct or union the name, the type, the offset in bits and,
    of bit fields, the number of bits, else 0."""
    found = []
    for name, member, offset in type.of.follow(ENTRY, type, type.entries):
        bits = offset >> 24 if type.flag else 0
        place = offset & 0xFFFFFF if type.flag else offset
        found.append((type.of.text(name), member, place, bits))
    return found


def constants(type: BtfType) -> list[tuple[int, str]]:
    """Return the numbers of an enumeration that have names."""
    text, signed = type.of.text, type.flag
    if type.kind == Kind.ENUM64:
        wide = type.of.follow(ENTRY, type, type.entries)
        return [(_signed(high << 32 | low, 8, signed), text(name)) for name, low, high in wide]
    narrow = type.of.follow(PAIR, type, type.entries)
    return [(_signed(value, type.value, signed), text(name)) for name, value in narrow]


def functions(btf: Btf) -> dict[str, list[int]]:
    """Return the numbers of the functions of a description, without its base's, by their names."""
    found: dict[str, list[int]] = {}
    for name, number in btf.numbers(Kind.FUNC):
        found.setdefault(name, []).append(number)
    return found


def parameters(type: BtfType) -> list[tuple[str, int]]:
    """Return the names and types of a prototype's parameters. The last one has neither where there
    may be more."""
    found = type.of.follow(PAIR, type, type.entries)
    return [(type.of.text(name), number) for name, number in found]


def _positions(data: bytes, start: int, end: int) -> array[int]:
    """Where each type begins."""
    found, at = array("I"), start
    while at + TYPE.size <= end:
        if len(found) == MOST:
            raise _damaged()
        info = WORD.unpack_from(data, at + 4)[0]
        found.append(at)
        kind = info >> 24 & 0x1F
        if not 1 <= kind <= Kind.ENUM64:
            raise _damaged()
        at += TYPE.size + FIXED.get(kind, 0) + EACH.get(kind, 0) * (info & 0xFFFF)
    if at != end:
        raise _damaged()
    return found


def _signed(value: int, size: int, signed: bool) -> int:
    sign = 1 << 8 * size - 1
    value &= 2 * sign - 1
    return (value ^ sign) - sign if signed else value


def _damaged() -> BtfError:
    return BtfError("damaged BTF", "reinstall the kernel or the file that has it")
