"""Names of code, each read alone as a trace does and all at once as a capture does, against nm(1)
and readelf(1)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.dwarf.code_names import CodeNames
from lbtrace.elf import memory
from lbtrace.elf.image import Image
from lbtrace.model import Binary

VIRTUAL = r"""
#include <functional>
struct shape { virtual int area() const; virtual ~shape() = default; };
int shape::area() const { return 3; }
static int twice(int n) { return 2 * n; }
extern "C" int apply(const std::function<int(int)> &f, int n) { return f(n); }
int main(int argc, char **argv) { shape s; return apply(twice, argc) + s.area(); }
"""


def names_in(path: str, build_id: str | None = None) -> CodeNames:
    found = Image.open(path).build_id if build_id is None else build_id
    return CodeNames(Binary(path, found, names_in=path))


@pytest.mark.parametrize("flags", [(), ("-O2", "-fno-plt")])
def test_functions_are_named_as_nm_names_them(
    build: Callable[..., str], tool: Callable[..., str], flags: tuple[str, ...]
) -> None:
    program = build(*flags, source=VIRTUAL, compiler="g++")
    listed = re.findall(r"^(\w+) [tTwW] (\S+)$", tool("nm", program), re.MULTILINE)
    at: dict[int, set[str]] = {}
    for address, name in listed:
        at.setdefault(int(address, 16), set()).add(name)
    names, everything = names_in(program), names_in(program).read()
    recorded = dict(zip(everything.addresses, everything.names, strict=True))
    for address, called in at.items():
        if recorded.get(address):
            assert recorded[address] in called
        assert names.function(address) == recorded.get(address, "")
    assert {"apply", "main"} <= set(recorded.values())
    assert names.function(next(a for a, called in at.items() if "main" in called) + 1) == ""
    assert [names.function(address) for address in (-1, -(1 << 63), 1 << 64)] == ["", "", ""]
    tables = {name for _, _, name in names.tables}
    assert "_ZTV5shape" in tables
    assert tuple(names.tables) == everything.tables


def test_stubs_are_named_by_what_they_lead_to(
    build: Callable[..., str], tool: Callable[..., str]
) -> None:
    program = build("-O1", "-fcf-protection=none")
    shown = tool("objdump", "-d", "-j", ".plt", program)
    stubs = re.findall(r"^0*(\w+) <(\w+)@plt>:$", shown, re.MULTILINE)
    names = names_in(program)
    assert stubs
    assert [names.function(int(address, 16)) for address, _ in stubs] == [name for _, name in stubs]


def test_another_file_at_the_path_names_nothing(build: Callable[..., str], tmp_path: Path) -> None:
    planned = Image.open(build("-O1")).build_id
    path = str(shutil.copy(build(source=VIRTUAL, compiler="g++"), tmp_path / "program"))
    entry = Image.open(path).entry
    assert names_in(path).function(entry) == "_start"
    assert names_in(path, planned).function(entry) == ""
    assert not names_in(path, planned).read().names
    assert names_in(str(tmp_path / "gone"), planned).function(entry) == ""


def test_words_are_relocated_whether_few_or_many_are_asked_for(tool: Callable[..., str]) -> None:
    path = shutil.which("bash") or ""
    rows = re.findall(
        r"^(\w{16})  \w{16} R_\w+_RELATIVE +(\w+)$", tool("readelf", "-rW", path), re.MULTILINE
    )
    words = {int(place, 16): int(value, 16) for place, value in rows}
    assert len(words) > 4 * memory.FEW
    asked = [*words][:: len(words) // (2 * memory.FEW)]
    held = memory.Memory(Image.open(path))
    assert [held.word(place) for place in asked] == [words[place] for place in asked]
    assert memory.Memory(Image.open(path)).word(asked[-1]) == words[asked[-1]]
