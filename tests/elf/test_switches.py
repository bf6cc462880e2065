"""All code of switch statements and computed gotos is followed, as compilers write them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.code_context import CodeContext
from tests.disassembly import sweep

NAMES = ("of_int", "of_result", "of_long", "of_byte", "in_loop", "goes_to")

SOURCE = """
#include <stdio.h>
struct tagged { unsigned char tag; int value; };
int made(int n) { return n * 2 + 1; }
int of_int(int n)
{
    int found = 0;
    switch (n) {
CASES
    default:
        found = -1;
    }
    return found + 1;
}
int of_result(int n)
{
    int found = 0;
    switch (made(n) - 4) {
CASES
    }
    return found + 1;
}
long of_long(long n)
{
    long found = 0;
    switch (n + 3) {
CASES
    default:
        printf("%ld", n);
    }
    return found + 1;
}
int of_byte(struct tagged *at)
{
    int found = at->value, n = found;
    switch (at->tag & 63) {
CASES
    default:
        return -1;
    }
    return found + 1;
}
int in_loop(const char *text)
{
    int found = 0, n = 3;
    for (; *text; text++)
        switch (*text) {
CASES
        default:
            switch (text[1]) {
CASES
            }
        }
    return found;
}
int goes_to(const unsigned char *code)
{
    static const void *const places[] = {&&stop, &&more, &&less, &&twice};
    int found = 0;
    goto *places[*code & 3];
more:
    found += 3;
    goto *places[*++code & 3];
less:
    found -= 7;
    goto *places[*++code & 3];
twice:
    found = made(found);
    goto *places[*++code & 3];
stop:
    return found;
}
int main(int argc, char **argv)
{
    struct tagged one = {argc, argc};
    int found = of_int(argc) + of_result(argc) + of_long(argc) + of_byte(&one);
    return found + in_loop(argv[0]) + goes_to((unsigned char *)argv[0]);
}
"""

NUMBERS = (33, 34, 35, 36, 38, 40, 41, 45)
CASE = "    case {0}:\n        found += made(n * {0});\n        break;"
CASES = "\n".join(map(CASE.format, NUMBERS))

LINE = re.compile(r"^\S+\.c +(\d+) +0x[0-9a-f]+.* x *$", re.M)
"""A row of the line table at which a statement begins, as objdump prints it."""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-Og", "-O1", "-O2", "-Os"])
@pytest.mark.parametrize("kind", ["-pie -fPIE", "-no-pie -fno-pie"])
def test_all_lines_have_points(tmp_path: Path, compiler: str, level: str, kind: str) -> None:
    """At instructions; and all exits are known."""
    source = tmp_path / "switches.c"
    source.write_text(SOURCE.replace("CASES", CASES))
    made = str(tmp_path / "switches")
    words = [compiler, "-g", level, *kind.split(), "-fno-inline", source, "-o", made]
    subprocess.run(words, check=True)
    table = ["objdump", "--dwarf=decodedline", made]
    done = subprocess.run(table, check=True, capture_output=True, text=True)
    lines = {f"switches.c:{number}" for number in LINE.findall(done.stdout)}
    plan = make_plan(made, Selection((), named={"line": ("switches.c:*",)}))
    assert len(lines) > 30
    assert {function.name for function in plan.functions} == lines, plan.notes
    assert {probe.site.address for probe in plan.probes} <= {at for at, _ in sweep(made)}
    image, machine = Image.open(made), Machine("x86_64")
    around = CodeContext(image, symbols.read(image), machine)
    sites = ProbeSites(machine, around)
    for function in symbols.read(image).functions:
        if function.name in NAMES:
            assert not sites.exits(around.body(function)).hidden, function.name
