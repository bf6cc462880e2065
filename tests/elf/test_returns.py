"""Where functions are left, judged by objdump and by what the compiler was told to write."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from pathlib import Path

import pytest

from lbtrace import arch
from lbtrace.arch import Code
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.elf.unwind import Unwind
from lbtrace.plan.returns import ExitPlaces

RETURN = re.compile(r"^\s*([0-9a-f]+):\t(?:[0-9a-f]{2} )+\s*\t(?:(?:bnd|repz|rep) )*ret\b")

FORMS = r"""
    .text
    .globl plain, repeated, popping, tailing, through, switched, held, with_data, after
    .type plain, @function
plain:
    ret
    .size plain, .-plain
    .type repeated, @function
repeated:
    test %edi, %edi
    je 1f
    repz ret
1:  bnd ret
    .size repeated, .-repeated
    .type popping, @function
popping:
    ret $8
    .size popping, .-popping
    .type tailing, @function
tailing:
    push %rbx
    test %edi, %edi
    pop %rbx
    jne 1f
    jmp elsewhere@PLT
1:  ret
    .size tailing, .-tailing
    .type through, @function
through:
    sub $24, %rsp
    mov (%rdi), %rax
    add $24, %rsp
    jmp *16(%rax)
    .size through, .-through
    .type switched, @function
switched:
    lea cases(%rip), %rdx
    movslq (%rdx,%rdi,4), %rax
    add %rdx, %rax
    jmp *%rax
2:  mov $1, %eax
    ret
3:  mov $2, %eax
    ret
    .size switched, .-switched
    .type held, @function
held:
    push %rbp
    mov %rsp, %rbp
    and $-32, %rsp
    sub $64, %rsp
    call plain
    leave
    jmp *%rdx
    .size held, .-held
    .type with_data, @function
with_data:
    jmp 1f
    .byte 0xe8, 0xc3, 0xc3
1:  xor %eax, %eax
    ret
    .size with_data, .-with_data
    .type after, @function
after:
    test %edi, %edi
    jne elsewhere@PLT
    ret
    .size after, .-after
    .type table, @function
table:
    lea targets(%rip), %rax
    jmp *(%rax, %rdi, 8)
    ret
    .size table, .-table
    .type counted, @function
counted:
    jrcxz table
    ret
    .size counted, .-counted
    .section .data.rel.ro
targets:
    .quad table + 10, elsewhere
    .section .rodata
cases:
    .long 2b - cases, 3b - cases
"""


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Image:
    where = tmp_path_factory.mktemp("forms")
    (where / "forms.s").write_text(FORMS)
    library = where / "libforms.so"
    subprocess.run(["gcc", "-shared", "-o", library, where / "forms.s"], check=True)
    return Image.open(str(library))


def left(image: Image, name: str) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
    """The exits of a function, as kind and distance from its beginning, and the hidden ones."""
    function = next(f for f in symbols.read(image).functions if f.name == name)
    code = image.code(function.address, function.size)
    body = Code(code, function.address, function.offset, function.address + function.size)
    exits = arch.of(image.machine).exit_finder().exits([body], lambda _: None)
    assert all(image.data[e.site.offset] == code[e.site.address - function.address]
               for e in exits.exits)  # fmt: skip
    return [(e.kind, e.site.address - function.address) for e in exits.exits], exits.hidden


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", [("return", 0)]),
        ("repeated", [("return", 4), ("return", 6)]),
        ("popping", [("return", 0)]),
        ("tailing", [("tail", 6), ("return", 11)]),
        ("through", [("tail", 11)]),
        ("switched", [("return", 21), ("return", 27)]),
        ("held", [("tail", 18)]),
        ("with_data", [("return", 7)]),
        ("after", [("tail", 2), ("return", 8)]),
        ("table", [("tail", 7), ("return", 10)]),
        ("counted", [("tail", 0), ("return", 2)]),
    ],
)
def test_forms(forms: Image, name: str, expected: list[tuple[str, int]]) -> None:
    assert left(forms, name) == (expected, ())


IN_PIECES = """
    .text
    .globl pieces
    .type pieces, @function
pieces:
    jo .Lfirst
    jb .Lsecond
    jz .Lthird
    js .Lfourth
    jp .Lfifth
    jmp *%rsi
    .size pieces, .-pieces
    .section .text.unlikely
.Lfifth: nop
.Lfourth: nop
.Lthird: nop
.Lsecond: nop
.Lfirst: ret
"""


def test_a_cold_part_that_many_jumps_enter_is_one(tmp_path: Path) -> None:
    """Without symbols; so a pointer's target can be told apart from it."""
    (tmp_path / "pieces.s").write_text(IN_PIECES)
    made = str(tmp_path / "libpieces.so")
    subprocess.run(["gcc", "-shared", "-o", made, tmp_path / "pieces.s"], check=True)
    image = Image.open(made)
    table = symbols.read(image)
    function = next(f for f in table.functions if f.name == "pieces")
    found = ExitPlaces(image, table, arch.of(image.machine)).exits(function)
    assert not found.hidden
    (jump,) = (e.site.jump for e in found.exits if e.kind == "tail")
    assert jump is not None
    assert len(jump.inside) == 2
    lengths = sorted(high - low for low, high in jump.inside)
    assert lengths[0] >= 5
    assert lengths[1] == function.size - 1


@pytest.mark.parametrize("library", ["libc.so.6", "/usr/bin/python3", "libstdc++.so.6"])
def test_returns_are_those_of_objdump(library: str) -> None:
    """A tenth of the functions; tests/bench/returns.py compares them all."""
    image = Image.open(library)
    table = symbols.read(image)
    text = subprocess.run(
        ["objdump", "-d", "-w", str(Path(image.path))], capture_output=True, text=True, check=True
    ).stdout
    everything = sorted(int(m[1], 16) for m in map(RETURN.match, text.splitlines()) if m)
    finder = arch.of(image.machine).exit_finder()
    compared = 0
    for function in table.functions[::10]:
        end = function.address + function.size
        body = Code(
            image.code(function.address, function.size), function.address, function.offset, end
        )
        found = finder.exits([body], lambda _: None).exits
        low, high = bisect_left(everything, function.address), bisect_left(everything, end)
        assert [e.site.address for e in found if e.kind == "return"] == everything[low:high]
        compared += 1
    assert compared > 100


def test_landing_pads_are_instructions() -> None:
    """Where an instruction begins, and not at the beginning of the function."""
    image = Image.open("libstdc++.so.6")
    text = subprocess.run(
        ["objdump", "-d", "-w", image.path], capture_output=True, text=True, check=True
    ).stdout
    begins = {int(m[1], 16) for m in re.finditer(r"^\s*([0-9a-f]+):\t", text, re.M)}
    unwind = Unwind(image)
    functions = symbols.read(image).functions
    pads = {f.address: unwind.landing_pads(f.address) for f in functions}
    assert sum(map(bool, pads.values())) > 100
    assert all(pad in begins and pad != address for address in pads for pad in pads[address])
