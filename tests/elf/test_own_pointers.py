"""Assembly without symbols and frame descriptions that restores the stack pointer it saved, and
such that looks alike but switches stacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.elf.test_switching import found_in

PROGRAM = """
__asm__(".text\\n.p2align 4\\n" CODE "\\n.p2align 4\\n");
int main(void) { return 0; }
"""

RESTORES = {
    "a computed jump": "mov %rsp, %r11; and $-32, %rsp; lea 1f(%rip), %rax; add %rdx, %rax;"
    "jmp *%rax; ret; .p2align 4; 1: add $8, %rdi; .p2align 4; 2: vzeroupper; mov %r11, %rsp; ret",
    "parts that are called": "jmp 2f; .p2align 4; 1: pxor %xmm0, %xmm0; dec %esi; jnz 1b; call 3f;"
    " ret; .p2align 4; 3: test %esi, %esi; jz 4f; jmp 3b; 4: ret; .p2align 4; 2: mov %rsp, %rcx;"
    " and $-16, %rsp; sub $48, %rsp; call 1b; neg %rsi; mov %rcx, %rsp; ret",
    "several epilogues": "mov %rsp, %r10; and $-64, %rsp; test %esi, %esi; jz 1f; mov %r10, %rsp;"
    " ret; .p2align 4; 1: mov %r10, %rsp; vzeroupper; ret",
    "a kept part": "mov %rsp, %r11; and $31, %r11; add $96, %r11; sub %r11, %rsp;"
    " mov %r11, 40(%rsp); mov $3, %r11; 1: dec %r11; jnz 1b; mov 40(%rsp), %r11; add %r11, %rsp;"
    " ret",
    "an unchanged part": "mov %rsp, %r11; and $31, %r11; sub %r11, %rsp; mov %rdi, (%rsp);"
    " mov 8(%rsi), %rax; add %r11, %rsp; ret",
}

SWITCHES = {
    "an argument after a copy": "mov %rsp, %rdi; and $-16, %rsp; mov %rdi, %rsp; ret;"
    " .p2align 4; mov %rdi, %rsp; ret",
    "an argument after a copy, and padding": "mov %rsp, %rsi; mov (%rsi), %rax; ret; .p2align 4;"
    " push %rbx; mov %rsi, %rsp; pop %rbx; ret",
    "what a call gave": "mov %rsp, %rax; mov %rsp, %rdi; call *%rdx; mov %rax, %rsp; ret",
    "what a called part gave": "jmp 2f; .p2align 4; 1: mov (%rdi), %rax; ret; .p2align 4;"
    " 2: mov %rsp, %rax; call 1b; mov %rax, %rsp; ret",
    "what a part gave, by a jump": "jmp 2f; .p2align 4; 1: mov (%rdi), %rax; ret; .p2align 4;"
    " 3: jmp 1b; .p2align 4; 2: mov %rsp, %rax; call 3b; mov %rax, %rsp; ret",
    "another stack's, after a switch": "mov %rsp, %rax; mov %rdi, %rsp; ret; .p2align 4;"
    " mov %rax, %rsp; ret",
    "what replaced the copy": "mov %rsp, %r11; mov %r11, (%rdi); mov (%rsi), %r11; mov %r11, %rsp;"
    " ret",
    "what was exchanged for the copy": "mov %rsp, %r11; xchg %r11, (%rdi); mov %r11, %rsp; ret",
    "what a string gave": "mov %rsp, %rax; lodsq; mov %rax, %rsp; ret",
    "a distance that is not taken back": "mov %rsp, %rax; sub %rsi, %rax; sub %rax, %rsp;"
    " mov (%rdi), %rax; add %rax, %rsp; ret",
    "a distance": "mov %rsp, %r11; mov %rdi, %rax; sub %r11, %rax; sub %rax, %rsp;"
    " mov (%rdi), %rax; add %rax, %rsp; ret",
    "a distance from the slot": "sub %r11, %rsp; mov %r11, (%rsp); mov %rdi, (%rsp);"
    " mov (%rsp), %r11; add %r11, %rsp; ret",
}


@pytest.mark.parametrize("code", RESTORES.values(), ids=RESTORES)
def test_what_was_saved_is_restored(tmp_path: Path, code: str) -> None:
    """As in x264's, dav1d's and libsodium's assembly."""
    assert not found_in(tmp_path, PROGRAM, "-s", f'-DCODE="{code}"')


@pytest.mark.parametrize("code", SWITCHES.values(), ids=SWITCHES)
def test_what_only_looks_alike_switches(tmp_path: Path, code: str) -> None:
    assert found_in(tmp_path, PROGRAM, "-s", f'-DCODE="{code}"')
