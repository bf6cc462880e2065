"""Functions by the source file that defines them; gdb says which these are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lbtrace.dwarf import sources
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, NoMatchError, UsageError
from lbtrace.plan import Selection, make_plan, source_files

HEADER = """
static inline __attribute__((noinline)) int squared(int n) { return n * n; }
static inline __attribute__((always_inline)) int doubled(int n) { return n + n; }
"""
FIRST = """
#include "inner/shared.h"
int second(int n);
static __attribute__((noinline)) int same(int n) { return n + 1; }
int main(int argc, char **argv) { return same(argc) + second(argc) + squared(doubled(argc)); }
"""
SECOND = """
#include "../inner/shared.h"
static __attribute__((noinline)) int same(int n) { return n + 2; }
__attribute__((noinline)) int second(int n) { return same(n) * squared(n); }
"""

BUILDS = {
    "O0": ["gcc", "-O0"],
    "O2": ["gcc", "-O2"],
    "dwarf2": ["gcc", "-gdwarf-2", "-gstrict-dwarf", "-O1"],
    "dwarf4": ["gcc", "-gdwarf-4", "-O2"],
    "types": ["gcc", "-fdebug-types-section", "-O0"],
    "split": ["gcc", "-gsplit-dwarf", "-O0"],
    "lto": ["gcc", "-O2", "-flto"],
    "clang": ["clang", "-O1"],
    "clang4": ["clang", "-gdwarf-4", "-O0"],
    "clang-split": ["clang", "-gsplit-dwarf", "-O1"],
}


WRITTEN = {"first.c": ["main", "same"], "second.c": ["same", "second"], "shared.h": ["squared"]}


def build(directory: Path, command: list[str]) -> str:
    (directory / "inner").mkdir()
    (directory / "other").mkdir()
    (directory / "inner/shared.h").write_text(HEADER)
    (directory / "first.c").write_text(FIRST)
    (directory / "other/second.c").write_text(SECOND)
    for source in ("first.c", "other/second.c"):
        made = [*command, "-g", "-c", source, "-o", source[:-2] + ".o"]
        subprocess.run(made, cwd=directory, check=True)
    linked = [*command, "-g", "first.o", "other/second.o", "-o", "program"]
    subprocess.run(linked, cwd=directory, check=True)
    return str(directory / "program")


def defined(binary: str, pattern: str) -> list[tuple[str, int]]:
    image = Image.open(binary)
    found = source_files.find([image], Selection(named={"source": (pattern,)}))
    return sorted((function.name, function.address) for function in found)


def of_gdb(binary: str, name: str) -> list[str]:
    """The functions that gdb lists below a file of that name."""
    command = ["gdb", "-batch", "-nx", "-ex", "info functions -n", binary]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = []
    for part in listed.split("\nFile ")[1:]:
        path, _, lines = part.partition(":\n")
        if path.endswith(name):
            found += re.findall(r"([\w.]+)\([^;]*\);", lines)
    return sorted(found)


@pytest.mark.parametrize("kind", BUILDS)
def test_as_gdb(tmp_path: Path, kind: str) -> None:
    binary = build(tmp_path, BUILDS[kind])
    for name in ("first.c", "second.c", "shared.h"):
        found = [name.partition(".")[0] for name, _ in defined(binary, name)]
        assert sorted({*found}) == WRITTEN[name]
        if kind != "lto":  # there gdb takes inlined headers for the unit's own file
            assert found == of_gdb(binary, name), name
    # Functions of the same name are distinguished by their file.
    assert not set(defined(binary, "first.c")) & set(defined(binary, "second.c"))


def test_patterns(tmp_path: Path) -> None:
    binary = build(tmp_path, BUILDS["O0"])
    second = defined(binary, "second.c")
    for pattern in ("other/*.c", "other/second.c", "s*d.c", "./second.c", "/r.second/"):
        assert defined(binary, pattern) == second, pattern
    assert defined(binary, str(tmp_path / "other/second.c")) == second
    assert defined(binary, "second.c@program") == second
    plan = make_plan(binary, Selection(("main",), named={"source": ("inner/*.h", "second.c")}))
    names = sorted(function.name for function in plan.functions)
    assert names == ["main", "same", "second", "squared", "squared"]


def test_errors(tmp_path: Path) -> None:
    binary = build(tmp_path, BUILDS["O2"])
    with pytest.raises(NoMatchError, match=r"secund\.c: is no source file of .*program") as raised:
        defined(binary, "secund.c")
    assert raised.value.hint.startswith("nearest names: second.c")
    with pytest.raises(NoMatchError, match=r"inner/second\.c: is no source file") as raised:
        defined(binary, "inner/second.c")
    with pytest.raises(UsageError, match=r"source=.*/\(/"):
        defined(binary, "/(/")
    shutil.copy(binary, tmp_path / "stripped")
    subprocess.run(["strip", "--strip-debug", tmp_path / "stripped"], check=True)
    with pytest.raises(BinaryError, match="has no debug information"):
        defined(str(tmp_path / "stripped"), "second.c")


def test_damaged_tables(tmp_path: Path) -> None:
    """Whatever a line table holds, reading it ends, in an error or without a match."""
    import random

    binary = build(tmp_path, BUILDS["dwarf4"])
    content = bytearray(Path(binary).read_bytes())
    section = Image.open(binary).section(".debug_line")
    assert section is not None
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(4):
            damaged[section.offset + random.randrange(section.size)] = random.randrange(256)
        (tmp_path / "damaged").write_bytes(damaged)
        image = Image.open(str(tmp_path / "damaged"))
        sources.find_functions(image, sources.path_test("*.c"))
