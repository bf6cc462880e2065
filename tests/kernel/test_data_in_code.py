"""Data and shared stacks in code: programs do the same with probes as without."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

RETURNS = ("auto", "uretprobe", "none")

pytestmark = pytest.mark.host

CONSTANT = r"""
#include <stdio.h>
__attribute__((noinline)) unsigned magic(void) { return 0x%xu; }
__attribute__((noinline)) int other(int n) { __asm__ volatile(""); return n + 1; }
int main(void) { other(1); printf("magic %%x\n", magic()); return 0; }
"""
"""The constant looks like what takes up a stack, and what leaves."""

RED_ZONE = r"""
#include <stdio.h>
__attribute__((noinline)) long leaf(long a) {
    long r;
    __asm__ volatile("movq %1, -8(%%rsp)\n movq %1, -16(%%rsp)\n .globl amid\n"
                     ".type amid, @function\n amid: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
                     "movq -8(%%rsp), %0\n" : "=r"(r) : "r"(a) : "memory");
    return r;
}
int main(void) {
    long bad = 0;
    for (long i = 1; i < 2000; i++) bad += leaf(i) != i;
    printf("bad %ld\n", bad);
    return 0;
}
"""

TABLES = r"""
    .text
    .globl looked, chosen
    .type looked, @function
looked:
    lea 1f(%rip), %rax
    movslq %edi, %rdi
    mov (%rax,%rdi,4), %eax
    ret
    .balign 4
1:  .long {words}
    .size looked, .-looked
    .type chosen, @function
chosen:
    cmp $3, %edi
    ja 9f
    lea 1f(%rip), %rax
    movslq (%rax,%rdi,4), %rdx
    add %rdx, %rax
    jmp *%rax
    .balign 4
1:  .long 2f-1b, 3f-1b, 4f-1b, 5f-1b
2:  mov $10, %eax
    ret
3:  mov $11, %eax
    ret
    .skip 0x9d, 0x90
4:  mov $12, %eax
    ret
    .byte {data}
5:  mov $13, %eax
    ret
9:  xor %eax, %eax
    ret
    .size chosen, .-chosen
    .section .note.GNU-stack,"",@progbits
"""

CALLER = r"""
#include <stdio.h>
int looked(int), chosen(int);
int main(void) {
    for (int i = 0; i < 5; i++) printf("%x %d\n", i < 4 ? looked(i) : 0, chosen(i));
    return 0;
}
"""


def same_with_probes(program: Path, returns: str, args: list[str]) -> str:
    """What lbtrace prints of all functions, if the program's output stays what it is."""
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "lbtrace", "attach", "--returns", returns, *args]
    log = program.with_suffix(".txt")
    done = subprocess.run(
        [*command, "-o", log, "--force", "--", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == plain.stdout, done.stderr
    assert done.returncode == 0, done.stderr
    return log.read_text()


@pytest.mark.parametrize("returns", RETURNS)
def test_constants_and_red_zones(tmp_path: Path, returns: str) -> None:
    for name, text in (("constant", CONSTANT % 0xC3E38B49), ("zone", RED_ZONE)):
        (tmp_path / f"{name}.c").write_text(text)
        program = tmp_path / name
        subprocess.run(["gcc", "-O2", program.with_suffix(".c"), "-o", program], check=True)
        same_with_probes(program, returns, ["--func", "*"])


@pytest.mark.parametrize("returns", RETURNS)
def test_tables_in_code(tmp_path: Path, returns: str) -> None:
    odd = [0xC3, 0xCB, 0xE8, 0xE9, 0xEB, 0xFF, 0x0F, 0x89, 0x48]
    words = [int.from_bytes(bytes(random.choices(odd, k=4)), "little") for _ in range(4)]
    data = random.choices(odd, k=random.randrange(1, 16))
    text = TABLES.format(words=", ".join(map(str, words)), data=", ".join(map(str, data)))
    (tmp_path / "tables.s").write_text(text)
    (tmp_path / "caller.c").write_text(CALLER)
    program = tmp_path / "tables"
    subprocess.run(["gcc", tmp_path / "tables.s", tmp_path / "caller.c", "-o", program], check=True)
    shown = same_with_probes(program, returns, ["--func", "looked", "--func", "chosen"])
    assert shown.count("chosen(") == 5
    assert "unwound" not in shown


OVERLAPPING = """\
#include <stdio.h>
__attribute__((noinline)) long outer(long a)
{
    long result;
    __asm__ volatile("mov %1, -8(%%rsp)\\n"
                     ".globl inner\\n.type inner, @function\\ninner: mov -8(%%rsp), %0\\n"
                     : "=r"(result) : "r"(a) : "memory");
    return result;
}
int main(void) { for (long i = 0; i < 5; i++) printf("%ld\\n", outer(i)); return 0; }
"""


@pytest.mark.parametrize("returns", RETURNS)
def test_function_that_begins_amid_another(tmp_path: Path, returns: str) -> None:
    """The outer one is not left where its code runs into the other's."""
    (tmp_path / "overlapping.c").write_text(OVERLAPPING)
    program = tmp_path / "overlapping"
    subprocess.run(["gcc", "-O1", program.with_suffix(".c"), "-o", program], check=True)
    shown = same_with_probes(program, returns, ["--func", "outer", "--func", "inner"])
    assert shown.count("outer(") == 5
    assert "unwound" not in shown
