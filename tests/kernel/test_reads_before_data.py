"""Functions that read their return addresses, of whose bytes some are no code: constants after
their returns, a size that is too large or too small. The program prints the same as untraced."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]

DATA = {
    "rex": ".byte 0x48",
    "escape": ".byte 0x0f",
    "no_opcode": ".byte 0x06",
    "call": ".byte 0xe8",
    "constant": ".byte 0x48, 0xb8",
    "float": ".long 0x3f800000",
    "double": ".quad 0x3ff0000000000000",
    "text": '.asciz "abc"',
    "zeros": ".quad 0",
}
READ = "push %rbx; mov 8(%rsp), %rax; pop %rbx; ret"
AFTER_DATA = "jmp 1f; .byte 0x48, 0xb8; 1: push %rbx; mov 8(%rsp), %rax; pop %rbx; ret"
BY_A_TABLE = """
    lea 8f(%rip), %rcx; movslq (%rcx), %rdx; add %rcx, %rdx; jmp *%rdx
8:  .long 1f - 8b, 0x06060606
1:  mov (%rsp), %rax; ret"""
JUMPED_BACK_TO = "jmp 2f; 1: mov (%rsp), %rax; ret; 2: push %rbx; pop %rbx; jmp 1b"
BEHIND_LOCK = "test %edi, %edi; je 1f + 1; 1: lock incl lock(%rip); mov (%rsp), %rax; ret"
BY_A_REGISTER = f"lea 2f(%rip), %r10; jmp *%r10; .byte 0x48, 0xb8; 2: {READ}"
BY_JUMPS_BACK = """
    jmp 3f; 2: mov -2(%rsp), %rax; shr $16, %rax; movzwl 6(%rsp), %edx; shl $48, %rdx
    or %rdx, %rax; ret; .byte 0xcc; 1: jmp 2b; .byte 0xff, 0xff; 3: jmp 1b"""
BY_A_HELPER = """
    sub $24, %rsp; mov %rsp, %r9; call 6f; add $24, %rsp; ret
6:  jmp 5f; .byte 0x48; 5: mov 24(%r9), %rax; ret"""
IN_TWO_WAYS = """
    cmp %rdi, %rdi; jz 2f; .byte 0x48, 0xc7, 0x80
2:  lea 256(%rsp), %r9; mov -256(%r9), %rax; ret"""
SHIFTED = "mov $1, %ecx; shl $3, %rcx; push %r11; mov (%rsp,%rcx), %rax; pop %r11; ret"
OTHERS = {
    "by_a_register": BY_A_REGISTER,
    "by_jumps_back": BY_JUMPS_BACK,
    "by_a_helper": BY_A_HELPER,
    "in_two_ways": IN_TWO_WAYS,
    "shifted": SHIFTED,
    "after_data": AFTER_DATA,
    "by_a_table": BY_A_TABLE,
    "jumped_back_to": JUMPED_BACK_TO,
    "behind_lock": BEHIND_LOCK,
}
SIZES = (1, 2, 7, 8, 9, 10, 11, 12, 20)
"""Of a function of 8 bytes."""

MAIN = """
#include <stdio.h>
extern char __executable_start[];
long lock;
#define F(name) long name(long n);
%s
#undef F
#define F(name) printf(#name " %%lx\\n", name(n) - (long)__executable_start);
int main(void)
{
    for (long n = 0; n < 3; n++) {
        %s
    }
    return 7;
}
"""


def function(name: str, code: str, size: str = "") -> str:
    return (
        f".globl {name}\n.type {name}, @function\n{name}: {code}\n"
        f".size {name}, {size or f'. - {name}'}\n"
    )


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, list[str]]:
    """A program, and its functions that read their return addresses."""
    made = {f"before_{kind}": f"{READ}; {data}" for kind, data in DATA.items()} | OTHERS
    source = "".join(function(name, code) for name, code in made.items())
    sizes = {f"size_{size}": str(size) for size in SIZES}
    source += "".join(function(name, READ, size) for name, size in sizes.items())
    names = [*made, *sizes]
    (tmp_path / "code.s").write_text(f".text\n{source}.section .note.GNU-stack\n")
    calls = "".join(f"F({name})" for name in names)
    (tmp_path / "main.c").write_text(MAIN % (calls, calls))
    path = tmp_path / "program"
    subprocess.run(["gcc", "-w", tmp_path / "main.c", tmp_path / "code.s", "-o", path], check=True)
    return path, names


@pytest.mark.parametrize("returns", ["auto", "uretprobe", "sites", "none"])
def test_what_they_read_stays_as_it_is(
    lbtrace: Run, program: tuple[Path, list[str]], returns: str
) -> None:
    path, names = program
    plain = subprocess.run([path], capture_output=True, text=True, check=False)
    asked = [word for name in names for word in ("--func", name)]
    done = lbtrace("attach", *asked, "--returns", returns, "-o", "/dev/null", "--", path)
    assert (done.stdout, done.returncode) == (plain.stdout, 7)
    assert f"{3 * len(names)} calls" in done.stderr
