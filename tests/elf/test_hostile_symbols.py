"""Tables of symbols that nobody would write: many symbols of few names, at few addresses."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from types import SimpleNamespace

import pytest

from lbtrace.elf.functions import TableFunctions
from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import COLD, FUNCTION, SYMBOL, SymbolSource, SymbolTable, Wanted

CODE = [0x1000, 0x2000]
GLOBAL, LOCAL, LABEL = 0x12, 0x02, 0x00

MOST = 1 << 16
IMAGE = SimpleNamespace(offset=lambda address: address, room=lambda address: 1 << 64)


class Read(SymbolTable):
    """A table that counts the symbols that become objects."""

    read = 0

    def symbol(self, position):
        self.read += 1
        return super().symbol(position)


def span(data: bytes) -> Span:
    return Span(data, 0, len(data))


def row(offset: int, address: int, info: int = GLOBAL, size: int = 1) -> bytes:
    return SYMBOL.pack(offset, info, 0, 1, address, size)


def functions(table: SymbolTable, kind: int = FUNCTION) -> TableFunctions:
    return TableFunctions(IMAGE, table, kind, [])


def of(strings: bytes, rows: list[bytes], words: bytes = b"", names=None) -> Read:
    source = SymbolSource(span(b"".join(rows)), span(strings), span(words), names or {})
    return Read.of_functions([source], CODE, [])


def test_many_symbols_of_one_text() -> None:
    """As many as their names have room for are there, and a few of those that are cut."""
    size, count = 5000, 100_000
    rows = [row(1 + n % 4990, 0x1000 + n % 64, size=n % 977 // 64) for n in range(count)]
    table = of(b"\0" + b"A" * size + b"\0", rows)
    found = [*functions(table)]
    assert [each.address for each in found] == [*range(0x1000, 0x1040)]
    assert [each.size for each in found] == [976 // 64] * 64
    assert table.left_out > 0.9 * count
    assert table.read < 0.1 * count
    table.read = 0
    for name in ("longjmp", "swapcontext", "A" * 20):
        assert not table.default_version(name)
    assert functions(table).with_part(".actor") == []
    assert not [*functions(table).wanted(Wanted(["longjmp", "sigaction"]))]
    assert [each.address for each in functions(table).with_part("AAAA")] == [*range(0x1000, 0x1040)]
    assert table.read < 0.1 * count


@pytest.mark.parametrize("name", [b"longjmp", b"f.actor", "é".encode(), b"a", b"f.cold", b"\xff"])
def test_many_symbols_of_one_name(name: bytes) -> None:
    """All but one of each sort at an address are left out, without a word: nothing is missing."""
    rows = [row(1, 0x1000 + n % 3, (GLOBAL, LOCAL)[n % 2], 40_000 - n) for n in range(30_000)]
    table = of(b"\0" + name + b"\0", rows)
    kind = COLD if b".cold" in name else FUNCTION
    found = [*functions(table, kind)]
    assert [(each.address, each.size) for each in found] == [
        (0x1000 + n, 40_000 - n) for n in range(3)
    ]
    assert not any(each.local or each.aliases for each in found)
    text = name.decode(errors="backslashreplace")
    assert {each.name for each in found} == {text}
    assert [*functions(table, kind).named(text)] == found
    assert [*functions(table, kind).with_part(text)] == found
    assert not table.default_version(text)
    assert table.read < 100
    assert table.left_out == 0


def test_names_at_an_address_are_kept_up_to_a_bound() -> None:
    """Linkers that fold functions with the same code give one address thousands of names."""
    names = [b"f%d" % number for number in range(MOST + 1000)]
    strings = b"\0" + b"\0".join(names) + b"\0"
    offsets, at = [], 1
    for name in names:
        offsets.append(at)
        at += len(name) + 1
    few = of(strings, [row(offset, 0x1000) for offset in offsets[:20_000]])
    (function,) = functions(few)
    assert {function.name, *function.aliases} == {name.decode() for name in names[:20_000]}
    assert few.left_out == 0
    assert functions(few).named("f19999") == [function]
    table = of(strings, [row(offset, 0x1000) for offset in offsets])
    (function,) = functions(table)
    assert len(function.aliases) + 1 == MOST + 16
    assert table.left_out == 1000 - 16


def program(path: Path, strings: bytes, rows: list[bytes]) -> str:
    """A program of 64 instructions, with a table of symbols and its strings."""
    code, names = b"\xc3" * 64, b"\0.text\0.symtab\0.strtab\0"
    start = 64 + 56
    at = [start, start + 64, start + 64 + len(strings)]
    tables = at[2] + SYMBOL.size * len(rows)
    load = pack("<IIQQQQQQ", 1, 5, 0, 0x1000, 0x1000, at[1], at[1], 0x1000)
    sections = (
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 6, 0x1000 + start, at[0], 64, 0, 0, 1, 0),
        (7, 2, 0, 0, at[2], SYMBOL.size * len(rows), 3, 0, 1, SYMBOL.size),
        (15, 3, 0, 0, at[1], len(strings), 0, 0, 1, 0),
        (15, 3, 0, 0, tables, len(names), 0, 0, 1, 0),
    )
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += pack(
        "<HHIQQQIHHHHHH",
        *(2, 62, 1, 0x1000 + start, 64, tables + len(names), 0, 64, 56, 1, 64, len(sections), 4),
    )
    content = [header, load, code, strings, *rows, names]
    content += [pack("<IIQQQQIIQQ", *section) for section in sections]
    path.write_bytes(b"".join(content))
    path.chmod(0o755)
    return str(path)
