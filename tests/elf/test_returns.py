"""The exits of functions, judged by objdump and by what the compiler was made to write."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.code_context import CodeContext

RETURN = re.compile(r"^\s*([0-9a-f]+):\t(?:[0-9a-f]{2} )+\s*\t(?:(?:bnd|repz|rep) )*ret\b")


def left(image: Image, name: str) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
    """The exits of a function, as kind and distance from its beginning, and the hidden ones."""
    function = next(f for f in symbols.read(image).functions if f.name == name)
    code = image.code(function.address, function.size)
    around = CodeContext(image, symbols.read(image), Machine(image.machine))
    exits = ProbeSites(Machine(image.machine), around).exits(around.body(function))
    assert all(image.data[e.site.offset] == code[e.site.address - function.address]
               for e in exits.exits)  # fmt: skip
    return [(e.kind, e.site.address - function.address) for e in exits.exits], exits.hidden


CAUGHT = """
#include <stdio.h>
#include <stdlib.h>
struct Noisy { ~Noisy() { puts("gone"); } };
__attribute__((noinline)) static int caught(int n) {
    try { throw n; } catch (int& thrown) { return thrown + 1; }
}
__attribute__((noinline)) static void thrown(int n) { Noisy noisy; puts("throws"); throw n; }
extern "C" int calls(int n) { int got = caught(n); return puts("back") + got; }
extern "C" int ends(int n) { if (n > 3) thrown(n); return puts("back") + n; }
int main(int argc, char **) { return calls(argc) + ends(argc); }
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_what_throws_and_catches_returns(tmp_path: Path, compiler: str, level: str) -> None:
    """So the code after its calls is followed, and nothing after calls of functions that only
    throw."""
    (tmp_path / "caught.cc").write_text(CAUGHT)
    made = str(tmp_path / "caught")
    command = [compiler, level, "-fno-optimize-sibling-calls", tmp_path / "caught.cc", "-o", made]
    subprocess.run(command, check=True)
    image = Image.open(made)
    table = symbols.read(image)
    around = CodeContext(image, table, Machine(image.machine))
    sites = ProbeSites(Machine(image.machine), around)
    functions = {f.name: f for f in table.functions}
    for name in ("calls", "ends"):
        found = sites.exits(around.body(functions[name]))
        assert not found.hidden
        assert [e.kind for e in found.exits] == ["return"], name
    throwing = next(f for f in table.functions if "thrown" in f.name)
    assert around.ends(throwing.address)


BESIDE = """
    .text
    .globl ending, shared
    .type ending, @function
ending:
    mov %rdi, %rax
    jmp .Lshared
    .size ending, .-ending
    .type shared, @function
shared:
    mov %rdi, %rax
.Lshared:
    mov %rdx, %rcx
    nop
    push %rbx
    pop %rbx
    ret
    .size shared, .-shared
"""


def test_no_entry_where_another_function_comes_to(tmp_path: Path) -> None:
    """Calls of the one would be counted for the other."""
    (tmp_path / "beside.s").write_text(BESIDE)
    made = str(tmp_path / "libbeside.so")
    command = ["gcc", "-shared", "-Wl,-z,noexecstack", tmp_path / "beside.s", "-o", made]
    subprocess.run(command, check=True)
    for name, behind in (("ending", 3), ("shared", 0)):
        plan = make_plan(made, Selection((name,)))
        (entry,) = (p.site for p in plan.probes if p.role == "opens")
        assert entry.address == plan.functions[0].address + behind


OWN = """
int printf(const char *, ...);
__attribute__((noinline)) int err(int n) { if (n > 2) printf("x"); __asm__(""); return n + 1; }
__attribute__((noinline)) int user(int n) { int m = err(n); __asm__(""); return m > 3 ? m * 2 : m; }
int main(void) { return user(1); }
"""


@pytest.mark.parametrize("flags", [["-O1"], ["-O2", "-fPIC", "-shared"]])
def test_a_name_does_not_keep_a_function_from_returning(tmp_path: Path, flags: list[str]) -> None:
    """It is called as one of the C library that never returns."""
    source, program = tmp_path / "own.c", tmp_path / "own"
    source.write_text(OWN)
    subprocess.run(["gcc", "-fno-builtin", *flags, source, "-o", program], check=True)
    returns, hidden = left(Image.open(str(program)), "user")
    assert [kind for kind, _ in returns] == ["return"]
    assert not hidden


@pytest.mark.parametrize("library", ["libc.so.6", "libstdc++.so.6"])
def test_returns_are_those_of_objdump(library: str) -> None:
    """A tenth of the functions."""
    image = Image.open(library)
    table = symbols.read(image)
    text = subprocess.run(
        ["objdump", "-d", "-w", str(Path(image.path))], capture_output=True, text=True, check=True
    ).stdout
    everything = sorted(int(m[1], 16) for m in map(RETURN.match, text.splitlines()) if m)
    around = CodeContext(image, table, Machine(image.machine))
    sites = ProbeSites(Machine(image.machine), around)
    compared = unprobed = 0
    for function in table.functions[::10]:
        end = function.address + function.size
        exits = sites.exits(around.body(function))
        low, high = bisect_left(everything, function.address), bisect_left(everything, end)
        mine = [e.site.address for e in exits.exits if e.kind == "return"]
        unprobed += bool(exits.hidden)
        if not exits.hidden:
            assert [a for a in mine if function.address <= a < end] == everything[low:high]
        assert set(mine) <= set(everything)  # also in the parts that no symbol names
        compared += 1
    assert compared > 100
    assert unprobed < compared / 50
