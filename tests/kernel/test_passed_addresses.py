"""Functions that pass addresses on their stacks on, or count the distance, run the same traced."""

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

SOURCE = """
#include <stdio.h>
#define FUNCTION(name, body) __asm__(".pushsection .text\\n.p2align 4\\n.globl " #name "\\n" \\
    ".type " #name ",@function\\n" #name ":\\n" body "\\n" \\
    ".size " #name ", . - " #name "\\n.popsection\\n")
struct registers { long saved[3]; long back; };
long first;
__attribute__((noinline, noclone)) long handler(struct registers *registers, long n) {
    return registers->back - first + n;
}
FUNCTION(stub, "push %rbx; push %r12; push %r13; mov %rsp, %rdi; mov $5, %esi; call handler;"
               "pop %r13; pop %r12; pop %rbx; ret");
FUNCTION(counted, "mov $8, %ecx; sub $8, %rsp; mov (%rsp,%rcx), %rax; sub first(%rip), %rax;"
                  "add $8, %rsp; ret");
FUNCTION(summed, "sub $24, %rsp; mov $24, %ecx; lea (%rsp), %rdx; add %rcx, %rdx; mov (%rdx), %rax;"
                 "sub first(%rip), %rax; add $24, %rsp; ret");
FUNCTION(further, "addq $5, 24(%rdi); ret");
FUNCTION(skipping, "sub $24, %rsp; mov %rsp, %rdi; call further; add $24, %rsp; mov $3, %eax; ret");
FUNCTION(skipped, "sub $8, %rsp; call skipping; mov $99, %eax; add $8, %rsp; ret");
long stub(void), counted(void), summed(void), skipped(void);
int main(void) {
    first = (long)main;
    long found = stub();
    printf("%ld %ld %ld %ld\\n", found, counted(), summed(), skipped());
    return 0;
}
"""


@pytest.mark.parametrize("returns", ["auto", "uretprobe", "sites", "none"])
def test_what_is_reached_by_passed_addresses_stays(
    lbtrace: Run, tmp_path: Path, returns: str
) -> None:
    (tmp_path / "program.c").write_text(SOURCE)
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O2", tmp_path / "program.c", "-o", program], check=True)
    plain = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    done = lbtrace(
        *("attach", "--binary", program, "--func", "*", "--quiet", "--returns", returns),
        *("-o", tmp_path / "out.jsonl", "--force", "--", program),
    )
    assert (done.returncode, done.stdout) == (0, plain), done.stderr


FRAMES = Path(__file__).resolve().parents[1] / "programs/hazards/shared_frame.c"
READERS = ("note", "last", "middle", "calling", "recalls")


@pytest.mark.parametrize("returns", ["auto", "uretprobe"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "gcc -fPIE -pie -fno-plt"])
@pytest.mark.parametrize("names", [READERS, ("*",)])
def test_what_shares_the_return_address_of_such_a_function(
    lbtrace: Run, tmp_path: Path, compiler: str, names: tuple[str, ...], returns: str
) -> None:
    """Readers to which it jumps, also where it is not traced itself."""
    program = tmp_path / "program"
    command = [*compiler.split(), "-O2", "-fno-inline-functions", "-w", FRAMES, "-o", program]
    subprocess.run(command, check=True)
    plain = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    named = [word for name in names for word in ("--func", name)]
    done = lbtrace(
        *("attach", *named, "--quiet", "--returns", returns),
        *("-o", tmp_path / "out.jsonl", "--force", "--", program),
    )
    assert (done.returncode, done.stdout) == (0, plain), done.stderr
