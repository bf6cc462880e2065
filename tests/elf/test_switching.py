"""Which programs switch stacks by themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine.code import StackSwitch
from lbtrace.plan import stack_switches
from tests.stack_ways import SHIFTS, WAYS, WAYS_BY_THE_FRAME

SOURCE = Path(__file__).resolve().parents[1] / "programs/fibers.c"


@pytest.mark.parametrize(
    ("compiler", "register"), [("gcc", "si"), ("clang", "si"), ("aarch64-linux-gnu-gcc", "x1")]
)
def test_assembly_of_fibers(tmp_path: Path, compiler: str, register: str) -> None:
    program = tmp_path / "fibers"
    subprocess.run([compiler, "-O2", "-w", SOURCE, "-o", program], check=True)
    image = Image.open(str(program), any_machine=True)
    table = symbols.read(image)
    (found,) = stack_switches.switches(image, table)
    function = next(f for f in table.functions if f.name == "take_up")
    assert function.address < found.address < function.address + function.size
    assert found.pointer is not None
    assert (found.pointer.register, found.pointer.read) == (register, "value")
    assert "by itself (take_up)" in stack_switches.why_hazardous(image, table)


@pytest.mark.parametrize("name", ["/usr/bin/python3", "libc.so.6", "libstdc++.so.6"])
def test_ordinary_programs_do_not(name: str) -> None:
    """Arrays of variable length, realigned stacks and the like are no switches."""
    image = Image.open(name)
    assert stack_switches.switches(image, symbols.read(image)) == []


def test_boost_context_is_known_by_its_code() -> None:
    """PHP has a copy of it, which moves the stack pointer on by ``lea``."""
    image = Image.open("php8.2")
    table = symbols.read(image)
    (found,) = stack_switches.switches(image, table)
    assert found.pointer is not None
    assert (found.pointer.register, found.pointer.read) == ("di", "value")
    assert "by itself (jump_fcontext)" in stack_switches.why_hazardous(image, table)


def test_static_programs_do_not(tmp_path: Path) -> None:
    """Although the C library in them could."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-static", tmp_path / "main.c", "-o", tmp_path / "main"], check=True)
    image = Image.open(str(tmp_path / "main"))
    assert stack_switches.switches(image, symbols.read(image)) == []


SWITCH = """
int before(int n) { int a[n]; __asm__ volatile("" :: "r"(a)); return a[n - 1]; }
__asm__(".text\\n.p2align 4\\n.globl change\\n"
#ifdef DESCRIBED
    ".type change, @function\\n"
#endif
    "change:\\n"
#ifdef DESCRIBED
    ".cfi_startproc\\n"
#endif
    "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdi)\\n"
    TAKE_UP "\\npop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\\n"
#ifdef DESCRIBED
    ".cfi_endproc\\n.size change, . - change\\n"
#endif
);
void change(void **, void *);
int main(int argc, char **argv) { change((void **)argv, *argv); return before(argc); }
"""


@pytest.mark.parametrize("way", WAYS | WAYS_BY_THE_FRAME)
@pytest.mark.parametrize("flags", [["-DDESCRIBED"], ["-DDESCRIBED", "-s"], [], ["-s"]])
def test_other_ways_to_take_up_a_stack(tmp_path: Path, flags: list[str], way: str) -> None:
    """In assembly with symbols and unwind information, and with neither."""
    take_up = (WAYS | WAYS_BY_THE_FRAME)[way]
    assert found_in(tmp_path, SWITCH, *flags, f'-DTAKE_UP="{take_up}"')
    if way not in SHIFTS:
        then = f"{take_up}; test %rsp, %rsp; jz 1f; call 2f; 1: jmp 3f; 2: ret; 3:"
        assert found_in(tmp_path, SWITCH, *flags, f'-DTAKE_UP="{then}"')


RESTORES = """
#define ASM(name, text) __asm__(".text\\n.p2align 4\\n.globl " #name "\\n" #name ":\\n" \\
    ".cfi_startproc\\n" text "\\nret\\n.cfi_endproc\\n"); void name(void);
ASM(moved, "lea (%rsp), %rax; and $-64, %rsp; sub $256, %rsp; lea (%rax), %rsp")
ASM(saved, "mov %rsp, %r11; sub $64, %rsp; mov %r11, 32(%rsp); mov 32(%rsp), %rsi;"
           "lea 0(%rsi), %rsp")
ASM(local, "push %rsp; pop %rsp")
ASM(frame, "push %rbp; mov %rsp, %rax; mov %rax, %rbp; and $-32, %rsp; leave")
ASM(plain, "mov %rsp, %r9; and $-32, %rsp; mov %r9, %rsp")
ASM(spilled, "mov %rsp, %rax; mov %rax, -16(%rsp); mov -16(%rsp), %rsp; test %rax, %rax; je 1f;"
             "nop; 1: nop")
ASM(calling, "push %rbp; mov %rsp, %rbp; call moved; mov %rbp, %rsp; test %rax, %rax; je 1f;"
             "nop; 1: pop %rbp")
int main(void) { spilled(); calling(); moved(); saved(); local(); frame(); plain(); return 0; }
"""


@pytest.mark.parametrize("flags", [[], ["-s"]])
def test_what_restores_the_stack_pointer_is_no_switch(tmp_path: Path, flags: list[str]) -> None:
    """As in OpenSSL's and libgcrypt's assembly."""
    assert not found_in(tmp_path, RESTORES, *flags)


@pytest.mark.parametrize(
    "name", ["libcrypto.so.3", "libgmp.so.10", "libgcrypt.so.20", "redis-server"]
)
def test_assembly_of_libraries_switches_no_stacks(name: str) -> None:
    assert [*stack_switches.similar(Image.open(name))] == []


def found_in(folder: Path, text: str, *flags: str) -> list[StackSwitch]:
    """What is found in a program."""
    (folder / "program.c").write_text(text)
    made = folder / "program"
    subprocess.run(["gcc", "-O1", *flags, folder / "program.c", "-o", made], check=True)
    return [*stack_switches.similar(Image.open(str(made)))]
