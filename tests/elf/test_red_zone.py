"""What functions keep below their stack pointers, where nops become calls that write there: against
the same programs with what overwrites it."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import read_markers
from lbtrace.machine import Machine
from lbtrace.machine.long_nops import NopUse
from lbtrace.model import Site
from lbtrace.plan.placement import Placer
from tests.red_zone_programs import poison, source

Build = Callable[..., Path]

REPLACED = NopUse(safe=True, quick=True, reason="the kernel puts a call in its place")
FUNCTIONS = 60
TRIED = 12
"""Of the functions where no probe may be, whose programs are run."""


def sites(program: Path) -> dict[int, set[Site | str]]:
    """Whether a probe may be on the markers of each function, or why not, on a kernel that puts
    calls in the place of nops."""
    image = Image.open(str(program))
    table = image.once(symbols.read)
    placer = Placer(image, table, Machine(image.machine), ask_nop=lambda raw: REPLACED)
    found: dict[int, set[Site | str]] = {}
    for marker in image.once(read_markers):
        found.setdefault(int(marker.name[1:]), set()).add(placer.sites.marked(marker.address))
    return found


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compiles a text, with a name for what it makes."""

    def compile(name: str, text: str, *command: str) -> Path:
        made = tmp_path / name
        assert shutil.which(command[0]), f"no {command[0]} is installed"
        words = [*command, "-x", "c", "-", "-o", str(made)]
        subprocess.run(words, input=text, text=True, check=True)
        return made

    return compile


def output(program: Path, *words: str) -> str:
    """What a program prints, or that it does not end, and its status."""
    try:
        done = subprocess.run([program, *words], capture_output=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    return f"{done.stdout.decode(errors='replace')}status {done.returncode}"


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_what_is_allowed_may_be_overwritten(build: Build, compiler: str, level: str) -> None:
    """Poison where a probe may be changes nothing; most of where none may be, it does."""
    text = source(FUNCTIONS)
    frame = random.choice(("-fomit-frame-pointer", "-fno-omit-frame-pointer"))
    command = (compiler, "-w", level, frame)
    plain = build("plain", text, *command)
    found = sites(plain)
    allowed = [n for n, places in found.items() if all(isinstance(p, Site) for p in places)]
    refused = [n for n in found if n not in allowed]
    reasons = Counter(str(p) for n in refused for p in found[n] if isinstance(p, str))
    poisoned = build("poisoned", text, *command, *poison(allowed))
    expected = output(plain)
    assert expected.count("\n") == 5 * FUNCTIONS
    assert output(poisoned) == expected, "something was overwritten"
    assert len(allowed) >= FUNCTIONS // 5, reasons
    harmed = build("harmed", text, *command, *poison(refused))
    tried = random.sample(refused, min(TRIED, len(refused)))
    wrong = [n for n in tried if output(harmed, str(n)) != output(plain, str(n))]
    assert len(wrong) >= len(tried) // 4, reasons


BODIES = {
    "mov %rdi, -8(%rsp); NOP; mov -8(%rsp), %rax; ret": "is kept below",
    "NOP; ret": "",
    "push %rbp; mov %rsp, %rbp; mov %rdi, -8(%rbp); NOP; pop %rbp; ret": "is kept",
    "push %rbp; mov %rsp, %rbp; sub $16, %rsp; mov %rdi, -8(%rbp); NOP; leave; ret": "",
    "push %rbp; mov %rsp, %rbp; sub $16, %rsp; mov %rdi, -24(%rbp); NOP; leave; ret": "is kept",
    "mov %rsp, %rax; mov %rdi, -8(%rax); NOP; mov -8(%rax), %rax; call puts@plt; ret": "is kept",
    "lea -64(%rsp), %rax; NOP; call puts@plt; ret": "is kept",
    "sub $40, %rsp; mov %rdi, (%rsp); add $40, %rsp; NOP; mov -40(%rsp), %rax; ret": "is kept",
    "push %rdi; pop %rax; NOP; ret": "",
    "sub $72, %rsp; lea 72(%rsp), %rax; 1: sub $8, %rax; mov %rdi, (%rax); dec %rsi; jnz 1b; NOP; "
    "add $72, %rsp; ret": "which part of the stack",
    "lea 8(%rsp), %r10; and $-64, %rsp; push -8(%r10); push %rbp; mov %rsp, %rbp; push %r10; "
    "sub $40, %rsp; mov %rdi, -48(%rbp); NOP; call puts@plt; mov -8(%rbp), %r10; leave; "
    "lea -8(%r10), %rsp; ret": "is not known after",
    "push %rbp; mov %rsp, %rbp; and $-64, %rsp; sub $64, %rsp; push %rdi; NOP; leave; ret": "",
    "push %rbp; mov %rsp, %rbp; and $-64, %rsp; mov %rdi, -8(%rbp); NOP; leave; ret": "is kept",
    "xchg %rsp, %rdi; NOP; xchg %rsp, %rdi; ret": "stack pointer is not known",
    "mov %rsp, zone(%rip); NOP; ret": "is put away",
    "vmovups %xmm0, -16(%rsp); NOP; ret": "is kept",
    "lea -64(%rsp), %rdi; mov $8, %ecx; rep stosq; NOP; ret": "is kept",
    "jmp *%rdi; 1: NOP; ret": "no code is seen to lead there",
}
"""What functions do, and what is said of them: nothing where a probe may be."""


@pytest.mark.parametrize("body", BODIES)
def test_assembly(build: Build, body: str) -> None:
    code = body.replace("NOP", "zone: .byte 0x0f, 0x1f, 0x44, 0, 0").replace("; ", "\\n")
    text = (
        f'__asm__(".text\\n.globl work\\n.type work, @function\\nwork:\\n{code}\\n'
        '.size work, .-work\\n");'
        "int puts(const char *); char kept[64]; int main(void) { return puts(kept); }"
    )
    image = Image.open(str(build("assembly", text, "gcc", "-w", "-no-pie")))
    table = image.once(symbols.read)
    address = next(f.address for f in table.functions if f.name == "work")
    code_of = image.code(address, 200)
    placer = Placer(image, table, Machine(image.machine), ask_nop=lambda raw: REPLACED)
    found = placer.sites.at(address + code_of.index(bytes.fromhex("0f1f440000")))
    assert BODIES[body] in found if BODIES[body] else isinstance(found, Site), found
