"""What `make check-sites` finds wrong, and a sample of its files for each commit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from disassembly import Disassembly  # noqa: E402

PROGRAM = r"""
    .text
    .globl constant, table, held, skipping, _start
    .type constant, @function
    .type table, @function
    .type held, @function
    .type skipping, @function
    .type _start, @function
constant:
    pxor value(%rip), %xmm0
right_behind_constant:
    ret
    .p2align 4
value:
    .byte 0x90
wrong_in_constant:
    .byte 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90
table:
    lea distances(%rip), %rdx
    movslq (%rdx,%rdi,4), %rax
    add %rdx, %rax
right_computed_jump:
    jmp *%rax
distances:
    .long right_case - distances
wrong_in_table:
    .long right_case - distances, 0x0000c3c3
right_case:
    ret
held:
    lea words(%rip), %rcx
    mov 8(%rcx), %eax
    ret
words:
    .long 0x90909090, 0x90909090
wrong_in_words:
    .long 0x90909090
skipping:
    jmp right_behind_data
    .byte 0x48, 0xb8
right_behind_data:
    ret
    .p2align 4
_start:
right_long_nop:
    .byte 0x0f, 0x1f, 0x44, 0, 0
    xor %eax, %eax
wrong_long_nop:
    .byte 0x0f, 0x1f, 0x44, 0, 0
    mov $0x12345678, %eax
    .set wrong_within_instruction, . - 2
right_end:
    ret
    .size _start, . - _start
"""


def test_the_check_distinguishes_right_sites_from_wrong_ones(tmp_path: Path) -> None:
    """Labels that begin with ``right`` are places for probes, the others are none."""
    source, program = tmp_path / "sites.s", tmp_path / "sites"
    source.write_text(PROGRAM)
    build = ["gcc", "-nostdlib", "-static", "-o", program, source]
    subprocess.run(build, check=True)
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    labels = {name: int(at, 16) for at, name in re.findall(r"(\w+) \w (\w+)", listed)}
    functions = ("constant", "table", "held", "skipping", "_start")
    stripped = tmp_path / "stripped"
    keep = [f"--keep-symbol={name}" for name in functions]
    subprocess.run(["objcopy", "-S", *keep, program, stripped], check=True)
    sites = {at: name for name, at in labels.items() if name.startswith(("right", "wrong"))}
    again, suspects = Disassembly(str(stripped)).suspects(
        sites, sorted(labels[f] for f in functions)
    )
    wrong = {sites[suspect.address]: suspect.why for suspect in suspects}
    assert wrong.keys() == {name for name in sites.values() if name.startswith("wrong")}, wrong
    assert again == 2  # behind data, and within an instruction
    assert "reads" in wrong["wrong_in_constant"]
    assert "nop" in wrong["wrong_long_nop"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sites_of_packages_are_instructions() -> None:
    command = [sys.executable, ROOT / "tests/check_sites.py", "--sample", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
