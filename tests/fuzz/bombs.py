"""Small files that are made to cost much.

    python tests/fuzz/bombs.py DIRECTORY [SEED]

writes one of each kind. What a file holds depends on the seed; how much it would cost
whoever trusts it does not.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

BASE = 0x400000
PROGBITS, SYMTAB, STRTAB, RELA, NOTE, NOBITS, DYNSYM = 1, 2, 3, 4, 7, 8, 11
ALLOCATED, CODE, COMPRESSED = 2, 6, 0x800
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RUST_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Section(NamedTuple):
    """A section to be; ``at`` is the name of the section whose bytes it shares."""

    name: str
    type: int
    content: bytes = b""
    flags: int = 0
    link: int = 0
    at: str = ""
    entry: int = 0


def elf(sections: list[Section], segments: list[tuple[int, int, str]] | None = None) -> bytes:
    """A program of these sections. ``segments`` are a type, flags and the section that each
    holds; the first loads all of the file as code, which begins with ``.text``."""
    segments = segments or []
    names = bytearray(b"\0")
    at = 64 + 56 * (1 + len(segments))
    body, places, rows = bytearray(), {}, [(0,) * 10]
    for section in [*sections, Section(".shstrtab", STRTAB)]:
        name = len(names)
        names += section.name.encode() + b"\0"
        content = bytes(names) if section.name == ".shstrtab" else section.content
        if section.at:
            start, size = places[section.at]
        else:
            body += bytes(-(at + len(body)) % 16)
            start, size = at + len(body), len(content)
            body += content
        places[section.name] = start, size
        address = BASE + start if section.flags & ALLOCATED else 0
        rows.append(
            (name, section.type, section.flags, address, start, size, section.link, 0, 1)
            + (section.entry,)
        )
    table = at + len(body) + -(at + len(body)) % 8
    total = table + 64 * len(rows)
    count = len(rows)
    if count >= 0xFF00:
        rows[0] = (0, 0, 0, 0, 0, count, count - 1, 0, 0, 0)
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQI", 2, 62, 1, BASE + places[".text"][0], 64, table, 0)
    last = 0xFFFF if count >= 0xFF00 else count - 1
    more = 0 if count >= 0xFF00 else count
    header += struct.pack("<HHHHHH", 64, 56, 1 + len(segments), 64, more, last)
    header += struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, total, total, 0x1000)
    for type, flags, name in segments:
        start, size = places[name]
        header += struct.pack("<IIQQQQQQ", type, flags, start, *[BASE + start] * 2, size, size, 1)
    body += bytes(table - at - len(body))
    return header + bytes(body) + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)


def address_of_text(segments: int = 0) -> int:
    """Where ``.text`` begins, as the first section."""
    at = 64 + 56 * (1 + segments)
    return BASE + at + -at % 16


def symbol(name: int, address: int, size: int = 1, kind: int = 2) -> bytes:
    return struct.pack("<IBBHQQ", name, 0x10 | kind, 0, 1, address, size)


def named(*names: bytes, code: bytes = b"\xc3" * 64, more: list[Section] | None = None) -> bytes:
    """A program with functions of these names, one a byte of code."""
    table, strings = bytearray(24), bytearray(b"\0")
    for n, name in enumerate(names):
        table += symbol(len(strings), address_of_text() + n % len(code))
        strings += name + b"\0"
    return elf(
        [
            Section(".text", PROGBITS, code, CODE),
            Section(".symtab", SYMTAB, bytes(table), 0, 3),
            Section(".strtab", STRTAB, bytes(strings)),
            *(more or []),
        ]
    )


def substitution(n: int) -> bytes:
    """The n-th part of a C++ name, referred to (Itanium C++ ABI, 5.1.10)."""
    if not n:
        return b"S_"
    digits, n = "", n - 1
    while True:
        digits = DIGITS[n % 36] + digits
        n //= 36
        if not n:
            return b"S" + digits.encode() + b"_"


def cxx_bomb(levels: int, salt: int = 0) -> bytes:
    name = b"_Z%df%d" % (len(str(salt)) + 1, salt) + b"PFvvE"
    for level in range(levels):
        part = substitution(2 * level + 1)
        name += b"PFv" + part + part + b"E"
    return name


def back(at: int) -> bytes:
    """A reference back into a Rust name (RFC 2603)."""
    digits, at = "", at - 1
    while True:
        digits = RUST_DIGITS[at % 62] + digits
        at //= 62
        if not at:
            return b"B" + digits.encode() + b"_"


def rust_bomb(levels: int, salt: int = 0) -> bytes:
    crate = b"a%d" % salt
    inner = b"INvC%d%s1f" % (len(crate), crate)
    last = len(inner)
    inner += b"TxxE"
    for _ in range(levels):
        here = len(inner)
        inner += b"T" + back(last) * 2 + b"E"
        last = here
    return b"_R" + inner + b"E"


def shared_string(random: Random) -> bytes:
    """Symbols whose names are the ends of one string."""
    count, length = random.randrange(15_000, 25_000), random.randrange(20_000, 600_000)
    strings = b"\0" + b"A" * length + b"\0"
    table = b"".join(
        symbol(1 + n % (length - 10), address_of_text() + n % 64) for n in range(count)
    )
    return elf(
        [
            Section(".text", PROGBITS, b"\xc3" * 64, CODE),
            Section(".symtab", SYMTAB, table, 0, 3),
            Section(".strtab", STRTAB, strings),
        ]
    )


def empty_notes(random: Random) -> bytes:
    notes = struct.pack("<III", 0, 0, 1) * random.randrange(1_500_000, 2_000_000)
    return elf(
        [
            Section(".text", PROGBITS, b"\xc3" * 64, CODE),
            Section(".symtab", SYMTAB, symbol(1, address_of_text(1)), 0, 3),
            Section(".strtab", STRTAB, b"\0f\0"),
            Section(".note.x", NOTE, notes),
        ],
        [(4, 4, ".note.x")],
    )


def overlapping_sections(random: Random) -> bytes:
    kinds = [
        *((".plt.%d", PROGBITS), (".rela.%d", RELA), (".symtab.%d", SYMTAB)),
        *((".dynsym", DYNSYM), (".debug_info", PROGBITS), (".gnu.version", 0x6FFFFFFF)),
        *((".eh_frame", PROGBITS), (".init_array", PROGBITS)),
    ]
    content = random.randbytes(16) * (1 << 16)
    sections = [
        Section(".text", PROGBITS, b"\xc3" * 64, CODE),
        Section(".symtab", SYMTAB, symbol(1, address_of_text()), 0, 3),
        Section(".strtab", STRTAB, b"\0f\0"),
        Section(".shared", PROGBITS, content),
    ]
    for n in range(60_000):
        name, type = kinds[n % len(kinds)]
        name = name % n if "%" in name else name
        sections.append(Section(name, type, b"", ALLOCATED, 3, ".shared", 24))
    return elf(sections)


def cxx_names(random: Random) -> bytes:
    return named(*(cxx_bomb(random.randrange(10, 40), n) for n in range(3_000)))


def rust_names(random: Random) -> bytes:
    return named(*(rust_bomb(random.randrange(12, 60), n) for n in range(1_000)))


def eh_frame(random: Random) -> bytes:
    """Descriptions without end, of numbers without end."""
    number = b"\x80" * random.randrange(500_000, 2_000_000)
    cie = struct.pack("<IIB", 1 << 20, 0, 1) + b"zPLR\0" + number
    frames = struct.pack("<II", 4, 4) * 200_000
    return named(
        b"main",
        b"_Z4mainv",
        code=b"\xe8\0\0\0\0" * 10 + b"\xc3",
        more=[
            Section(".eh_frame", PROGBITS, cie + frames, ALLOCATED),
            Section(".gcc_except_table", PROGBITS, b"\xff\xff\1" + b"\x80" * 100_000, ALLOCATED),
        ],
    )


def pclntab(count: int, name: bytes) -> Callable[[Random], bytes]:
    def make(random: Random) -> bytes:
        header = struct.pack("<IBBBBQ", 0xFFFFFFFB, 0, 0, 1, 8, count)
        rows = 60_000
        start = 16 + 16 * rows + 8
        text = address_of_text()
        table = b"".join(struct.pack("<QQ", text + n, start) for n in range(rows))
        body = header + table + struct.pack("<Q", text + 64)
        body += struct.pack("<Qi", text, start + 64) + bytes(52) + name + b"\0"
        return named(b"main", more=[Section(".gopclntab", PROGBITS, body, ALLOCATED)])

    return make


def uleb(n: int) -> bytes:
    found = bytearray()
    while n >= 0x80:
        found.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*found, n])


def debug(information: bytes, abbreviations: bytes, *more: Section) -> bytes:
    return named(
        b"main",
        more=[
            Section(".debug_info", PROGBITS, information),
            Section(".debug_abbrev", PROGBITS, abbreviations),
            *more,
        ],
    )


def abbreviation(code: int, tag: int, children: int, *pairs: int) -> bytes:
    return uleb(code) + uleb(tag) + bytes([children]) + b"".join(map(uleb, pairs)) + b"\0\0"


def unit(body: bytes, size: int | None = None) -> bytes:
    body = struct.pack("<HIB", 4, 0, 8) + body
    return struct.pack("<I", len(body) if size is None else size) + body


def whole_unit(body: bytes) -> bytes:
    """A unit that covers the code, with entries of its own."""
    return unit(b"\1" + struct.pack("<QQ", address_of_text(), 64) + body)


ROOT = abbreviation(1, 0x11, 1, 0x11, 1, 0x12, 7)
FUNCTION = abbreviation(2, 0x2E, 1, 0x11, 1, 0x49, 0x13)
SCOPE = abbreviation(3, 0x39, 1)


def many_units(random: Random) -> bytes:
    return debug(unit(b"\1") * 500_000, ROOT + b"\0")


def deep_entries(random: Random) -> bytes:
    return debug(whole_unit(b"\3" * random.randrange(1_000_000, 4_000_000)), ROOT + SCOPE + b"\0")


def cycles(random: Random) -> bytes:
    """Types, origins and declarations that refer to each other."""
    reference = struct.pack("<I", 11 + 17 + 13)
    origin = abbreviation(4, 0x2E, 0, 0x31, 0x13, 0x47, 0x13)
    body = (
        b"\2" + struct.pack("<Q", address_of_text()) + reference + (b"\4" + reference * 2) * 1_000
    )
    return debug(whole_unit(body), ROOT + FUNCTION + origin + b"\0")


def packed(kind: int, claimed: int, content: bytes) -> Section:
    header = struct.pack("<IIQQ", kind, 0, claimed, 1)
    return Section(".debug_info", PROGBITS, header + content, COMPRESSED)


def zlib_bomb(random: Random) -> bytes:
    engine = zlib.compressobj(1)
    content = b"".join([*(engine.compress(bytes(1 << 20)) for _ in range(200)), engine.flush()])
    return named(b"main", more=[packed(1, 200 << 20, content)])


def long_function(random: Random) -> bytes:
    code = b"".join(random.choice((b"\x90", b"\x75\x10", b"\xeb\xf0")) for _ in range(3_000_000))
    table = symbol(1, address_of_text(), len(code)) + symbol(1, address_of_text() + 1, 1 << 62)
    return elf(
        [
            Section(".text", PROGBITS, code + b"\xc3", CODE),
            Section(".symtab", SYMTAB, table, 0, 3),
            Section(".strtab", STRTAB, b"\0f\0"),
        ]
    )


BOMBS: dict[str, Callable[[Random], bytes]] = {
    make.__name__: make
    for make in (
        *(shared_string, empty_notes, overlapping_sections, cxx_names, rust_names, eh_frame),
        *(many_units, deep_entries, cycles, zlib_bomb, long_function),
    )
} | {
    "pclntab_count": pclntab(1 << 60, b"main.main"),
    "pclntab_names": pclntab(30_000, b"x" * 500_000),
}
"""What each kind of file is made by."""


def write(directory: Path, seed: int = 0) -> dict[str, Path]:
    """One file of each kind."""
    made = {}
    for name, make in BOMBS.items():
        made[name] = directory / name
        made[name].write_bytes(make(Random(f"{name} {seed}")))
    return made


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
