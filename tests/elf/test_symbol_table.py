"""The columns of symbol tables against tables that are read symbol by symbol: made ones, damaged
ones and those of real files; what is found in them, and in code."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.functions import NESTED, TableFunctions
from lbtrace.elf.image import Image
from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import COLD, FUNCTION, SYMBOL, SymbolSource, SymbolTable
from lbtrace.machine import code_scan
from lbtrace.plan import landing_pads
from tests import symbols_reference

PIECES = (
    *("f", "g", "main", "_ZN2v8", "_ZSt9terminatev", "_R", "9panicking", "é", "\\xff", "fib"),
    *(".cold", ".cold.1", ".part.0", ".constprop.0", ".actor", "@V1", "@@V2", "@", "7", "_", "."),
)
SIZES = (0, 0, 1, 7, 16, 1 << 40)
CODE = [0x1000, 0x2000, 0x3000, 0x3800]
STUBS = [0x1100, 0x1180]
ENDS = [0x1000, 0x1F00]


def made(seed: int) -> list[SymbolSource]:
    """Tables of a hundred symbols whose names share ends, of any type, some of them damaged."""
    choose = random.Random(seed)
    sources = []
    for _ in range(choose.randrange(1, 4)):
        texts = [
            "".join(choose.choices(PIECES, k=choose.randrange(1, 5))).encode() for _ in range(60)
        ]
        strings = b"\0" + b"\0".join(texts) + choose.choice([b"\0", b""])
        if choose.random() < 0.3:
            strings += bytes([0xFF, 0x2E, 0]) + b"x" * 20_000 + b"\0"
        rows = [
            SYMBOL.pack(
                choose.randrange(len(strings) + 4),
                choose.choice((0, 2, 2, 2, 10, 1)) | choose.choice((0, 16, 32)),
                0,
                choose.choice((0, 1, 1, 1, 0xFF00, 0xFFF1, 0xFFFF)),
                choose.choice((0, *range(0xF00, 0x1200, 16), 0x3400, 1 << 63)),
                choose.choice(SIZES),
            )
            for _ in range(100)
        ]
        data, words = b"".join(rows) + choose.randbytes(choose.randrange(24)), b""
        if choose.random() < 0.5:
            words = b"".join(
                choose.choice((0, 1, 2, 3, 0x8002, 0x8003)).to_bytes(2, "little") for _ in rows
            )
        names = {2: "V2", 3: "W"} if words else {}
        padded = b"pad" + strings + b"tail\0"
        words = words[: choose.choice((len(words), 51))]
        sources.append(SymbolSource(span(data), Span(padded, 3, len(strings)), span(words), names))
    return sources


def span(data: bytes) -> Span:
    return Span(data, 0, len(data))


def compare(sources: list[SymbolSource], code: list[int], stubs: list[int], ends: list[int], image):
    expected = symbols_reference.read(sources, code, stubs, ends)
    table = SymbolTable.of_functions(sources, code, stubs)
    listed = {kind: TableFunctions(image, table, kind, ends) for kind in (FUNCTION, COLD)}
    for kind, rows in ((FUNCTION, believed(expected.functions)), (COLD, believed(expected.cold))):
        found = [(f.address, f.size, (f.name, *f.aliases), f.local) for f in listed[kind]]
        assert found == rows
        assert [*zip(*listed[kind].names(), strict=True)] == [
            (a, names[0]) for a, _, names, _ in rows
        ]
        for address, *_ in rows[:300]:
            assert listed[kind][listed[kind].before(address) - 1].address == address
            for near in (address, address + 1, address - 1):
                holding = listed[kind].holding(near)
                extent = holding and range(holding.address, holding.address + holding.size)
                assert listed[kind].extent(near) == extent
    assert sorted({*table.addresses}) == expected.starts
    assert list(table.addresses) == sorted(table.addresses)
    return table, listed, expected


def believed(rows):
    """The functions, of which none reaches over more than a few others."""
    starts = [row[0] for row in rows]
    return [
        (start, starts[n + 1] - start, *rest)
        if starts[n + NESTED : n + NESTED + 1] and starts[n + NESTED] < start + size
        else (start, size, *rest)
        for n, (start, size, *rest) in enumerate(rows)
    ]


def check_searches(table, listed, expected, names: list[str]):
    """Searches give at least what they should, in order; the exact ones just that."""
    for name in names:
        assert table.default_version(name) == expected.versions.get(name, "")
        for kind, rows in ((FUNCTION, expected.functions), (COLD, expected.cold)):
            found = [f.address for f in listed[kind].named(name)]
            assert found == sorted(found)
            wanted = {a for a, _, all, _ in rows if name in all or all[0].startswith(f"{name}.")}
            assert wanted <= {*found}
            for part in (name[1:], name[-6:]):
                holding = [a for a, _, all, _ in rows if any(part in each for each in all)]
                assert [f.address for f in listed[kind].with_part(part)] == holding


@pytest.mark.parametrize("seed", range(30))
def test_columns_are_as_the_tables(seed):
    image = SimpleNamespace(offset=lambda address: address, room=lambda address: 1 << 64)
    table, listed, expected = compare(made(seed), CODE, STUBS, ENDS, image)
    choose = random.Random(seed)
    names = [name for _, _, all, _ in (*expected.functions, *expected.cold) for name in all]
    names += ["f", "main", "fib.cold", "é", "nothing", *expected.versions]
    check_searches(table, listed, expected, choose.sample(names, min(len(names), 12)))


FILES = ("/bin/bash", "/usr/bin/node", "libc.so.6", "libstdc++.so.6", "perl", "redis-server", "git")


@pytest.mark.parametrize("name", FILES)
def test_columns_are_as_the_tables_of(name, monkeypatch):
    read = []
    original = SymbolTable.of_functions.__func__

    def note(cls, *arguments):
        read.append(arguments)
        return original(cls, *arguments)

    monkeypatch.setattr(SymbolTable, "of_functions", classmethod(note))
    image = Image.open(shutil.which(name) or name)
    found = symbols.read(image)
    ((sources, code, stubs),) = read
    table, listed, expected = compare(sources, code, stubs, found.functions._ends, image)
    assert list(found.ifuncs) == sorted({name for _, name in expected.ifuncs})
    every = [name for _, _, names, _ in expected.functions for name in names]
    choose = random.Random(7)
    check_searches(table, listed, expected, choose.sample(every, min(len(every), 5)))
    for wanted, is_one in WANTED:
        named = {a for a, _, names, _ in expected.functions if any(map(is_one, names))}
        assert named <= {f.address for f in found.functions.wanted(wanted)}


WANTED = (
    (landing_pads.WANTED, lambda name: name in landing_pads.TWICE),
    (landing_pads.WANTED, landing_pads.is_catch),
)


@pytest.mark.parametrize("seed", range(5))
def test_scans_of_code(seed):
    choose = random.Random(seed)
    often = b"\xe8\x48\x49\x4c\x89\x8b\x87\xc4\x24\x20\xe0\x60\0\0\xff\x94\x97"
    code = bytes(choose.choice(often) if choose.random() < 0.8 else choose.randrange(256)
                 for _ in range(3000))  # fmt: skip
    address, view = 0x400000, memoryview(code)
    calls = {
        at: address + at + 5 + int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
        for at in range(len(code) - 4)
        if code[at] == 0xE8
    }
    targets = {*choose.sample([t for t in calls.values() if t >= 0], 5), -1, 1 << 70}
    expected = [at for at, target in calls.items() if target in targets]
    assert [*code_scan.find_calls(view, address, targets)] == expected
    assert [*code_scan.find_calls(view, address, ())] == []

    words = {at: int.from_bytes(code[at : at + 4], "little") for at in range(0, 2997, 4)}
    links = {
        at: address + at + 4 * ((word & 0x3FFFFFF) - ((word >> 25 & 1) << 26))
        for at, word in words.items()
        if word >> 26 == 0x25
    }
    targets = {*choose.sample([t for t in links.values() if t >= 0], min(len(links), 3))}
    expected = [at for at, target in links.items() if target in targets]
    assert [*code_scan.find_links(view, address, targets)] == expected


IN_A_CYCLE = """
import gc, sys
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
image = Image.open(sys.argv[1])
cycle = [symbols.read(image)]
cycle.append(cycle)
del cycle, image
gc.collect()
"""


def test_symbols_in_a_cycle_of_references_are_freed() -> None:
    run = [sys.executable, "-c", IN_A_CYCLE, sys.executable]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
