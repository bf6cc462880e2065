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
    plan = make_plan(made, Selection((), lines=("switches.c:*",)))
    assert len(lines) > 30
    assert {function.name for function in plan.functions} == lines, plan.notes
    assert {probe.site.address for probe in plan.probes} <= {at for at, _ in sweep(made)}
    image, machine = Image.open(made), Machine("x86_64")
    around = CodeContext(image, symbols.read(image), machine)
    sites = ProbeSites(machine, around)
    for function in symbols.read(image).functions:
        if function.name in NAMES:
            assert not sites.exits(around.body(function)).hidden, function.name


BESIDE = """
    .text
    .globl main
    .type main, @function
main:
    cmp $2, %edi
    fldz
    ja .Lout
    fstp %st(0)
    mov %edi, %edi
    lea .Ltable(%rip), %rdx
    movslq (%rdx,%rdi,4), %rcx
    add %rdx, %rcx
    jmp *%rcx
.Lfirst:
    mov $1, %eax
    ret
.Lsecond:
    mov $2, %eax
    ret
.Lout:
    fstp %st(0)
    xor %eax, %eax
    ret
    .size main, . - main
    .section .rodata
.Ltable:
    .long .Lfirst - .Ltable, .Lsecond - .Ltable, .Lfirst - .Ltable
    .section .note.GNU-stack, "", @progbits
"""


def test_floats_beside_the_comparison(tmp_path: Path) -> None:
    """The x87's instructions change flags of their own, which no jump tests."""
    (tmp_path / "beside.s").write_text(BESIDE)
    made = str(tmp_path / "beside")
    subprocess.run(["gcc", tmp_path / "beside.s", "-o", made], check=True)
    image, machine = Image.open(made), Machine("x86_64")
    table = symbols.read(image)
    around = CodeContext(image, table, machine)
    main = next(function for function in table.functions if function.name == "main")
    found = ProbeSites(machine, around).exits(around.body(main))
    assert not found.hidden
    assert len(found.exits) == BESIDE.count("ret\n")


MATCH = """
    .text
    .globl main
    .type main, @function
main:
    movzbl %dil, %eax
    lea .Ltable(%rip), %rcx
    movslq (%rcx,%rax,4), %rax
    add %rcx, %rax
    jmp *%rax
.Lfirst:
    mov $1, %eax
.Lback:
    ret
.Lsecond:
    mov (%rsi), %eax
    lea .Lnested(%rip), %rcx
    movslq (%rcx,%rax,4), %rax
    add %rcx, %rax
    jmp *%rax
.Lthird:
    mov $0xc3c3, %eax
    ret
.Lfourth:
    HELD
    mov $4, %eax
    ret
    .size main, . - main
    .globl other
    .type other, @function
other:
    ret
    .size other, . - other
    .section .rodata
    .balign 4
.Ltable:
    .long .Lfirst - .Ltable, .Lsecond - .Ltable, .Lfourth - .Ltable
    AFTER
.Lnested:
    .long .Lthird - .Lnested, .Lfirst - .Lnested
    .long other - .Lnested, .Lback - .Lnested
    .section .note.GNU-stack, "", @progbits
"""


def exits_of_match(tmp_path: Path, held: str, after: str) -> tuple[int, tuple[str, ...]]:
    """How many exits `MATCH` has, and what hides others; all are at instructions."""
    (tmp_path / "match.s").write_text(MATCH.replace("HELD", held).replace("AFTER", after))
    made = str(tmp_path / "match")
    subprocess.run(["gcc", tmp_path / "match.s", "-o", made], check=True)
    image, machine = Image.open(made), Machine("x86_64")
    table = symbols.read(image)
    around = CodeContext(image, table, machine)
    main = next(function for function in table.functions if function.name == "main")
    found = ProbeSites(machine, around).exits(around.body(main))
    assert {exit.site.address for exit in found.exits} <= {at for at, _ in sweep(made)}
    return len(found.exits), found.hidden


AFTER = {
    "its next table": "",
    "amid an instruction": ".long .Lthird + 1 - .Ltable, .Lthird + 2 - .Ltable",
    "nowhere": ".long 0x7375bebf, .Lthird + 1 - .Ltable",
    "far": ".long -1, -2",
}


@pytest.mark.parametrize("after", AFTER)
def test_tables_that_nothing_bounds(tmp_path: Path, after: str) -> None:
    """Exhaustive matches of Rust compare their index with nothing: a table ends where no entry
    of it can be."""
    assert exits_of_match(tmp_path, "", AFTER[after]) == (3, ())


@pytest.mark.parametrize(
    "held",
    [
        "lea .Ldata(%rip), %rdx; jmp .Lon; .Ldata: .byte 0xb8; .Lon:",
        "jmp .Lon; .byte 0x06, 0xc3; .Lon:",
        "jmp .Lon; .byte 0x48, 0xb8; .Lon:",
    ],
)
def test_no_table_is_ended_where_data_may_be(tmp_path: Path, held: str) -> None:
    exits, hidden = exits_of_match(tmp_path, held, "")
    assert exits == 0
    assert len(hidden) == 1
    assert "leads is not known" in hidden[0]
