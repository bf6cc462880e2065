"""Tables of symbols that nobody would write: many symbols of few names, at few addresses."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from struct import pack
from types import SimpleNamespace

import pytest

from lbtrace.elf.functions import NESTED, TableFunctions
from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import COLD, FUNCTION, SYMBOL, SymbolSource, SymbolTable, Wanted

CODE = [0x1000, 0x2000]
GLOBAL, LOCAL, LABEL = 0x12, 0x02, 0x00
FEW = 64
"""Symbols at an address that are kept, whatever they are: lbtrace/native/symbol_crowds.c."""

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


def test_what_is_left_out_changes_nothing_else() -> None:
    """What is at an address, which name is best, how large it is and which version is the default
    one are as without those that are as others."""
    choose = random.Random(11)
    names = [
        b"f",
        b"f.part.0",
        b"__f",
        b"f.cold",
        b"g",
        b"x.actor",
        "é".encode(),
        b"h@@V1",
        b"i@V1",
    ]
    strings = b"\0" + b"\0".join(names) + b"\0"
    offsets = [strings.index(b"\0" + name + b"\0") + 1 for name in names]
    for _ in range(50):
        made = [
            (
                choose.choice(offsets),
                0x1000 + 16 * choose.randrange(4),
                choose.choice((0, 2, 10, 18)),
            )
            for _ in range(FEW)
        ]
        words = [choose.choice((1, 1, 2, 0x8002)) for _ in made]
        tables = []
        for times in (1, 40):
            each = [row(*of_one, size=7) for of_one in made] * times
            data = b"".join(word.to_bytes(2, "little") for word in words * times)
            tables.append(of(strings, each, data, {2: "V2"}))
        once, often = tables
        for kind in (FUNCTION, COLD):
            assert [*functions(once, kind)] == [*functions(often, kind)]
            for start in range(0xFF0, 0x1050, 4):
                assert functions(once, kind).extent(start) == functions(often, kind).extent(start)
        assert sorted({*once.addresses}) == sorted({*often.addresses})
        for name in names:
            text = name.decode().partition("@")[0]
            assert once.default_version(text) == often.default_version(text)
            assert functions(once).named(text) == functions(often).named(text)
            assert functions(once).with_part(text) == functions(often).with_part(text)


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


@pytest.mark.parametrize("words", [("list",), ("attach", "--dry-run", "--no-cache", "--func", "*")])
def test_what_is_left_out_is_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    size = 5000
    rows = [row(1 + n % 4990, 0x1078 + n % 64) for n in range(20_000)]
    path = program(tmp_path / "many", b"\0" + b"A" * size + b"\0", rows)
    done = subprocess.run(
        [sys.executable, "-m", "lbtrace", *words, "--binary", path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "further names of its functions are left out: too many" in done.stderr
    assert done.stdout.count("\n") >= 64


def test_sizes_that_reach_over_many_functions_are_not_believed() -> None:
    """Functions may lie inside of one, but not as many as claim the rest of the code here."""
    strings = b"\0" + b"".join(b"f%d\0" % n for n in range(100))
    offsets = [strings.index(b"\0f%d\0" % n) + 1 for n in range(100)]
    rows = [row(offsets[n], 0x1000 + 16 * n, size=0x1000 - 16 * n) for n in range(100)]
    found = [*functions(of(strings, rows))]
    sizes = [each.size for each in found]
    assert sizes == [16] * (100 - NESTED) + [0x1000 - 16 * n for n in range(100 - NESTED, 100)]
    table = functions(of(strings, rows))
    for each in found:
        assert table.last_extent(each.address) == range(each.address, each.address + each.size)
    assert {each.address for each in table.covering(0x1000 + 16 * 50 + 1)} == {0x1000 + 16 * 50}
    assert len(table.covering(0x1000 + 16 * 99 + 1)) == NESTED
