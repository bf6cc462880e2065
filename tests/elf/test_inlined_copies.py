"""Where inlined copies begin, and which file defines what was inlined."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.plan import Selection, make_plan
from tests.made_inlined import ENTRIES, build_entry


def addresses(made: str) -> dict[str, int]:
    return {f.name: f.address for f in symbols.read(Image.open(made)).functions}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_copy_begins_at_its_entry(tmp_path: Path, entry: str) -> None:
    """It is not its lowest address: the code before is a loop of the copy."""
    made = build_entry(tmp_path, entry)
    plan = make_plan(made, Selection(("copied",), inlined=True))
    (probe,) = plan.probes
    assert probe.site.address - addresses(made)["work"] == (5 if entry == "outside" else 10)


FILES = {
    "first.h": "static inline __attribute__((always_inline)) int first(int n)\n"
    '{\n\t__asm__ volatile("nop" : "+r"(n));\n\treturn n + 1;\n}\n',
    "second.h": "static inline __attribute__((always_inline)) int second(int n)\n"
    '{\n\t__asm__ volatile("nop" : "+r"(n));\n\treturn n * 3;\n}\n',
    "third.h": "static inline __attribute__((always_inline)) int third(int n)\n"
    '{\n\t__asm__ volatile("nop" : "+r"(n));\n\treturn n - 7;\n}\n',
    "one.c": '#include "first.h"\n#include "second.h"\n'
    "static inline __attribute__((always_inline)) int own(int n)\n"
    '{\n\t__asm__ volatile("nop" : "+r"(n));\n\treturn n ^ 3;\n}\n'
    "__attribute__((noinline)) int one(int n) { return first(n) + second(n) + own(n); }\n",
    "two.c": '#include "third.h"\n#include "second.h"\n#include "first.h"\n'
    "__attribute__((noinline)) int two(int n) { return third(n) + second(n) + first(n); }\n",
    "main.c": '#include "third.h"\nint one(int), two(int);\n'
    "int main(int argc, char **argv) { return one(argc) + two(argc) + third(argc); }\n",
}

DEFINED = {"first.h": {"first"}, "second.h": {"second"}, "third.h": {"third"}, "one.c": {"own"}}
"""What was inlined, by the file that defines it."""

BUILDS = {
    "gcc": ["gcc", "-O1"],
    "gcc, DWARF 4": ["gcc", "-O1", "-gdwarf-4"],
    "gcc, LTO": ["gcc", "-O2", "-flto"],
    "gcc, LTO, DWARF 4": ["gcc", "-O2", "-flto", "-gdwarf-4"],
    "gcc, LTO, one part": ["gcc", "-O2", "-flto", "-flto-partition=one"],
    "clang": ["clang", "-O1"],
}


@pytest.mark.parametrize("kind", BUILDS)
def test_a_copy_belongs_to_the_file_that_defines_it(tmp_path: Path, kind: str) -> None:
    """The number of that file is one in the unit of the function, which with gcc's LTO is not the
    unit of the copy, and has other numbers."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    sources = [name for name in FILES if name.endswith(".c")]
    words = [*BUILDS[kind], "-g", *sources, "-o", "program"]
    subprocess.run(words, cwd=tmp_path, check=True)
    made = str(tmp_path / "program")
    for file, names in DEFINED.items():
        plan = make_plan(made, Selection((), named={"source": (file,)}, inlined=True))
        points = {plan.functions[p.function].name for p in plan.probes if p.role == "point"}
        assert points == names, file
