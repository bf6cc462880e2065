"""Units found by the table of addresses, which may lack or mistake some, against all of them."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from lbtrace.dwarf.reader import index
from lbtrace.dwarf.reader.address_table import listed_units
from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.dwarf.reader.companions import Companions
from lbtrace.dwarf.reader.files import File
from lbtrace.elf import debugfile, symbols
from lbtrace.elf.debug_sections import Sections
from lbtrace.elf.image import Image


def opened(path: str) -> tuple[File, list[int]]:
    """The debug information of a file, and the addresses of its functions."""
    image = Image.open(path)
    debug = debugfile.find(image)
    assert debug is not None
    companions = Companions(image.path, debug.path, debugfile.ROOT, Budget(1 << 40))
    addresses = [function.address for function in symbols.read(image).functions]
    return companions.open(Sections(debug.data)), addresses


def check(path: str, monkeypatch: pytest.MonkeyPatch) -> tuple[File, list[int]]:
    """Compare both ways, for functions together and alone."""
    file, addresses = opened(path)
    chosen = sorted(random.Random(path).sample(addresses, min(index.FEW, len(addresses))))
    found = [index.find_units(file, chosen)]
    found += [index.find_units(file, [address]) for address in chosen]
    monkeypatch.setattr(index, "FEW", 0)
    expected = index.find_units(file, chosen)
    assert expected
    assert found[0] == expected
    assert {at: unit for each in found[1:] for at, unit in each.items()} == expected
    return file, chosen


def test_of_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    file, chosen = check("libc.so.6", monkeypatch)
    assert len(listed_units(file, chosen)) > 50


PARTS = ("int first(int a) { return a + 1; }", "int second(int a) { return a * 3; }")


def built(tmp_path: Path, *options: str) -> Path:
    """A library of two units."""
    objects = []
    for number, text in enumerate(PARTS):
        source = tmp_path / f"{number}.c"
        source.write_text(text)
        objects.append(tmp_path / f"{number}.o")
        subprocess.run(["gcc", "-g", "-c", *options, source, "-o", objects[-1]], check=True)
    subprocess.run(["gcc", "-shared", *objects, "-o", tmp_path / "parts.so"], check=True)
    return tmp_path / "parts.so"


@pytest.mark.parametrize("section", ["as it is", "damaged", "wrong", "absent"])
def test_tables_are_checked(tmp_path: Path, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built(tmp_path, "-fPIC")
    table = tmp_path / "table"
    objcopy = ["objcopy", "--dump-section", f".debug_aranges={table}", path, tmp_path / "copy"]
    subprocess.run(objcopy, check=True)
    raw = bytearray(table.read_bytes())
    if section == "damaged":
        raw[random.randrange(16)] ^= 0x55
    elif section == "wrong":  # the units change places
        half = len(raw) // 2
        raw[6:10], raw[half + 6 : half + 10] = raw[half + 6 : half + 10], raw[6:10]
    table.write_bytes(raw)
    change = ["--update-section", f".debug_aranges={table}"]
    if section == "absent":
        change = ["--remove-section", ".debug_aranges"]
    subprocess.run(["objcopy", *change, path], check=True)
    check(str(path), monkeypatch)
