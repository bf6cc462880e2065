"""The fields of a tracepoint's record: types and places, as its ``format`` in tracefs says
(Documentation/trace/events.rst)."""

from __future__ import annotations

import re
from collections.abc import Container

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.abi.locations import IndexedFetch, Location
from lbtrace.model import Fetch, Formal, Prototype, Scalar, Type
from lbtrace.tracepoints.print_tables import Table, find_hexadecimal, find_internet, read_tables
from lbtrace.values.array import Array
from lbtrace.values.boolean import Boolean
from lbtrace.values.character import Character
from lbtrace.values.device import Device
from lbtrace.values.flags import Flags
from lbtrace.values.integer import Integer, fixed_width
from lbtrace.values.internet_address import InternetAddress
from lbtrace.values.long_address import LENGTHS, LongAddress
from lbtrace.values.pointer import Pointer

NUMBER = re.compile(r"^ID: (\d+)$", re.M)
FIELD = re.compile(r"^\tfield:(.+);\toffset:(\d+);\tsize:(\d+);(?:\tsigned:(\d);)?$", re.M)
DECLARATION = re.compile(
    r"(?P<where>__data_loc |__rel_loc )?(?P<type>.*?)(?P<name>\w+)(?P<of>\[.*\])?"
)
ADDRESS = re.compile(r"unsigned long$|u64$|uint64_t$|addr")
"""Types of numbers that are addresses where they are printed in hexadecimal."""
CHARACTERS = frozenset({"char", "const char"})
VARYING = "an array of varying length"

WORD = 8
SIZES = {"char": 1, "u8": 1, "short": 2, "u16": 2, "int": 4, "u32": 4}
"""Sizes of elements, by the ends of their types' names; of others they are `WORD`."""


class Field(Struct, frozen=True):
    """A field: its ``name``, its ``type``, and where it lies in the record."""

    name: str
    type: Type
    place: Location


class Format(Struct, frozen=True):
    """A tracepoint's ``number`` in the kernel, and its fields without those that all have."""

    number: int
    fields: tuple[Field, ...]

    @property
    def prototype(self) -> Prototype:
        """The fields, as the parameters of a function."""
        formals = (
            Formal(f.name, f.type, f.type.size, (Scalar(0, f.type.size, "integer"),))
            for f in self.fields
        )
        return Prototype(tuple(formals), exact=True, complete=True)

    def places(self, prototype: Prototype) -> Locations:
        """Return where they are, as many as ``prototype`` has."""
        count = len(prototype.parameters)
        return Locations(tuple(field.place for field in self.fields)[:count], Location())


def parse_format(text: str) -> Format:
    """Return what a file ``format`` says. Raises `ValueError` where it has no number."""
    number = NUMBER.search(text)
    if number is None:
        raise ValueError("a format without a number")
    head, _, printed = text.partition("\nprint fmt: ")
    tables, addresses = read_tables(printed), find_hexadecimal(printed)
    internet = find_internet(printed)
    fields = []
    for declared, offset, size, signed in FIELD.findall(head):
        made = _field(declared, int(offset), int(size), signed == "1", tables, addresses)
        if made is not None and made.name in internet:
            made = replace(made, type=_internet(made.type))
        if made is not None:
            fields.append(made)
    return Format(int(number[1]), tuple(fields))


def _field(
    declared: str,
    offset: int,
    size: int,
    signed: bool,
    tables: dict[str, Table],
    addresses: Container[str],
) -> Field | None:
    found = DECLARATION.fullmatch(declared)
    if found is None or found["name"].startswith("common_"):
        return None
    name, written = found["name"], found["type"].strip()
    at = Fetch(base="record", offset=offset, space="kernel")
    if found["where"]:
        return _placed(name, written, offset, found["where"].strip())
    table = tables.get(name)
    if found["of"] and written in CHARACTERS and size:
        type: Type = Array(f"char{found['of']}", size, Character("char", 1, True), size)
    elif found["of"] or size not in (1, 2, 4, 8):
        type = _array(written, found["of"] or "", size, signed)
    elif "*" in written or (name in addresses and ADDRESS.search(written) and not table):
        type = Pointer(written, size)
    elif table:
        type = Flags(written, size, signed, 0 if table.flags else -1, table.names)
    elif written == "dev_t" and size == 4:
        type = Device(written, size)
    elif written == "bool":
        type = Boolean(written, size)
    else:
        type = Integer(written, size, signed)
    return Field(name, type, Location(memory=at))


def _internet(type: Type) -> Type:
    """The type of a field that is printed as an address of IPv4 or IPv6, or of a socket."""
    if type.size in LENGTHS:
        return LongAddress(type.name, type.size, fixed_width(4, signed=False), type.size // 4)
    return InternetAddress(type.name) if type.size == 4 else type


def _placed(name: str, written: str, offset: int, where: str) -> Field:
    """A field of which the record has the place: its low 16 bits count from the record's start, or
    from the end of these four bytes; the high ones are its length."""
    element = written.removesuffix("[]").strip()
    if element not in CHARACTERS:
        return Field(name, Integer(written, WORD, False), Location(reason=VARYING))
    index = Fetch(base="record", offset=offset, read="integer", size=4, bit_size=16, space="kernel")
    start = offset + 4 if where == "__rel_loc" else 0
    text = IndexedFetch(base="record", offset=start, space="kernel", index=index)
    return Field(name, Pointer("char[]", 8, Character("char", 1, True)), Location(words=(text,)))


def _array(written: str, of: str, size: int, signed: bool) -> Type:
    """An array of numbers; of what is no number, the bytes."""
    counted = of[1:-1]
    if counted.isdecimal() and int(counted) and not size % int(counted):
        each = size // int(counted)
    else:
        each = next((n for end, n in SIZES.items() if written.endswith(end)), WORD) if of else 1
    if each not in (1, 2, 4, 8) or size % each:
        each = 1
    element = fixed_width(each, signed=signed)
    return Array(f"{written}{of}", size, element, size // each)
