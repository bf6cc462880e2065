"""Which programs switch stacks by themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.code import StackSwitch
from lbtrace.machine.sites import ProbeSites
from lbtrace.plan import context_switches, stack_switches
from lbtrace.plan.code_context import Surroundings
from tests.stack_ways import ALL_WAYS, SHIFTS

CROSS = "aarch64-linux-gnu-gcc"
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


@pytest.mark.parametrize("name", ["/usr/bin/python3", "libc.so.6", "libstdc++.so.6"])
def test_ordinary_programs_do_not(name: str) -> None:
    """Arrays of variable length, realigned stacks and the like are no switches."""
    image = Image.open(name)
    assert stack_switches.switches(image, symbols.read(image)) == []


@pytest.mark.parametrize(
    "name", ["/usr/bin/python3", "libc.so.6", "libstdc++.so.6", "php8.2", "node", "ocamlopt.opt"]
)
def test_nothing_that_ordinary_programs_do_is_unseen(name: str) -> None:
    """Node's builtins pass over their arguments, OCaml raises by what looks like a switch."""
    try:
        image = Image.open(name)
    except BinaryError:
        pytest.skip(f"needs {name}")
    table = symbols.read(image)
    seen = {switch.address for switch in stack_switches.switches(image, table) if switch.pointer}
    assert stack_switches.find_unseen(image, table, seen) is None


def test_what_goes_on_there(tmp_path: Path) -> None:
    """What moves the stack pointer and then pushes passes over arguments."""

    def found(text: str) -> StackSwitch:
        (tmp_path / "program.S").write_text(
            f".type main, @function; .globl main; main: mov %rsp, (%rdi); {text}\n"
            ".size main, . - main\n"
        )
        made = tmp_path / "program"
        subprocess.run(["gcc", tmp_path / "program.S", "-o", made], check=True)
        (switch,) = stack_switches.similar(Image.open(str(made)))
        return switch

    jumps = found("mov %rsi, %rsp; pop %rbx; pop %rcx; jmp *%rcx")
    assert jumps.resumes
    assert jumps.jump > jumps.address
    returns = found("mov %rsi, %rsp; pop %rbx; pop %rcx; ret")
    assert (returns.resumes, returns.jump) == (True, 0)
    assert not found("pop %rcx; add %rsi, %rsp; push %rcx; ret").resumes
    assert found("add %rsi, %rsp; pop %rcx; ret").resumes


def test_boost_context_is_known_by_its_code() -> None:
    """PHP has a copy of it, which moves the stack pointer on by ``lea``."""
    image = Image.open("php8.2")
    table = symbols.read(image)
    (found,) = stack_switches.switches(image, table)
    assert found.pointer is not None
    assert (found.pointer.register, found.pointer.read) == ("di", "value")


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


@pytest.mark.parametrize("way", ALL_WAYS)
@pytest.mark.parametrize("flags", [["-DDESCRIBED"], ["-DDESCRIBED", "-s"], [], ["-s"]])
def test_other_ways_to_take_up_a_stack(tmp_path: Path, flags: list[str], way: str) -> None:
    """In assembly with symbols and unwind information, and with neither."""
    take_up = ALL_WAYS[way]
    assert found_in(tmp_path, SWITCH, *flags, f'-DTAKE_UP="{take_up}"')
    if way not in SHIFTS:
        then = f"{take_up}; test %rsp, %rsp; jz 1f; call 2f; 1: jmp 3f; 2: ret; 3:"
        assert found_in(tmp_path, SWITCH, *flags, f'-DTAKE_UP="{then}"')


@pytest.mark.parametrize("way", ALL_WAYS)
@pytest.mark.parametrize("flags", [["-DDESCRIBED"], []])
def test_each_is_watched_or_known_not_to_be(tmp_path: Path, flags: list[str], way: str) -> None:
    """Whether the symbol of the assembly has a type or not."""
    take_up = ALL_WAYS[way]
    assert found_in(tmp_path, SWITCH, *flags, f'-DTAKE_UP="{take_up}"')
    image = Image.open(str(tmp_path / "program"))
    table, stubs, machine = symbols.read(image), plt.stubs(image), Machine(image.machine)
    sites = ProbeSites(machine, Surroundings(image, table, machine))
    probes = stack_switches.plan_probes(image, table, stubs, sites)
    seen = [probe.site.address for probe in probes if probe.role == "switch"]
    assert seen or stack_switches.find_unseen(image, table, seen) is not None


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


BASE_POINTER = """
ASM(based, "push %rbp; mov %rsp, %rbp; push %rbx; and $-64, %rsp; sub $256, %rsp; mov %rsp, %rbx;"
           "mov %rsp, 96(%rbx); sub $512, %rsp; mov 96(%rbx), %rsp; test %rax, %rax; je 1f; nop;"
           "1: call moved; lea -8(%rbp), %rsp; pop %rbx; pop %rbp")
void use(void *, void *) {}
int f(int n, int *a) { _Alignas(64) char x[64]; int s = 0, t = n * 3, u = n * 7;
    for (int i = 0; i < n; i++) { char b[i + a[i]]; use(b, x); s += b[0] * n + t * u; t++; u += s; }
    return s + x[3]; }
"""


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_base_pointers_of_llvm(tmp_path: Path, level: str) -> None:
    """By which it restores the stack pointer after arrays of variable length."""
    assert not found_in(tmp_path, RESTORES + BASE_POINTER, level, compiler="clang")


@pytest.mark.parametrize(
    "resume", ["mov 8(%rsp), %rsp", "lea 8(%rsp), %rcx; mov (%rcx), %rsp",
               "push %rbp; mov %rsp, %rbp; mov 16(%rbp), %rsp",
               "push %rbx; sub $32, %rsp; mov 48(%rsp), %rsp"],
)  # fmt: skip
def test_stack_pointers_that_the_caller_passes_on_its_stack(tmp_path: Path, resume: str) -> None:
    text = f"{resume}; mov $1, %eax; jmp *%rdx; .size resume, . - resume"
    text = f'__asm__(".type resume, @function; resume: {text}"); int main(void) {{ return 0; }}'
    (found,) = found_in(tmp_path, text)
    assert found.pointer is not None
    assert not found.keeps


@pytest.mark.parametrize(
    "name", ["libcrypto.so.3", "libgmp.so.10", "libgcrypt.so.20", "redis-server"]
)
def test_assembly_of_libraries_switches_no_stacks(name: str) -> None:
    assert [*stack_switches.similar(Image.open(name))] == []


def found_in(folder: Path, text: str, *flags: str, compiler: str = "gcc") -> list[StackSwitch]:
    """What is found in a program."""
    (folder / "program.c").write_text(text)
    made = folder / "program"
    subprocess.run([compiler, "-O1", *flags, folder / "program.c", "-o", made], check=True)
    return [*stack_switches.similar(Image.open(str(made), any_machine=True))]


ARM64 = {
    "move": "mov sp, x1",
    "add": "add sp, x1, #0",
    "apart": "sub x9, x1, #32; add sp, x9, #32",
    "farther": "sub x9, x1, #1, lsl 12; add sp, x9, #1, lsl 12",
    "sub": "add x9, x1, #48; sub sp, x9, #48",
    "aligned": "and sp, x1, #-16",
    "saved": "mov x20, x1; mov sp, x20",
    "chosen": "cmp x1, #0; csel x9, x1, x0, ne; mov sp, x9",
    "frame": "mov x29, x1; mov sp, x29",
    "stored": "str x1, [sp, #-16]!; ldr x9, [sp], #16; mov sp, x9",
    "loaded": "str x1, [x1, #-8]; ldr x9, [x1, #-8]; mov sp, x9",
    "extended": "add sp, x1, xzr",
    "shift": "mov x9, sp; sub x9, x1, x9; add sp, sp, x9",
}
"""Ways in which arm64 assembly takes up the stack at x1."""

ARM64_SWITCH = """
int before(int n) { int a[n]; __asm__ volatile("" :: "r"(a)); return a[n - 1]; }
__asm__(".text\\n.p2align 2\\n.globl change\\n.type change, %function\\nchange:\\n.cfi_startproc\\n"
    "stp x19, x20, [sp, #-32]!; stp x29, x30, [sp, #16]; mov x10, sp; str x10, [x0]\\n"
    TAKE_UP "\\nldp x29, x30, [sp, #16]; ldp x19, x20, [sp], #32; ret\\n"
    ".cfi_endproc\\n.size change, . - change\\n");
void change(void **, void *);
int main(int argc, char **argv) { change((void **)argv, *argv); return before(argc); }
"""


@pytest.mark.parametrize("way", ARM64)
@pytest.mark.parametrize("flags", [[], ["-s"]])
def test_ways_to_take_up_a_stack_on_arm64(tmp_path: Path, flags: list[str], way: str) -> None:
    take_up = ARM64[way]
    (found,) = found_in(tmp_path, ARM64_SWITCH, *flags, f'-DTAKE_UP="{take_up}"', compiler=CROSS)
    assert found.keeps
    if way != "shift":
        then = f"{take_up}; cbz x0, 1f; bl 2f; 1: b 3f; 2: ret; 3:"
        flag = f'-DTAKE_UP="{then}"'
        (found,) = found_in(tmp_path, ARM64_SWITCH, *flags, flag, compiler=CROSS)


ARM64_RESTORES = """
#define ASM(name, text) __asm__(".text\\n.p2align 2\\n.globl " #name "\\n.type " #name \
    ", %function\\n" #name ":\\n.cfi_startproc\\n" text "\\nret\\n.cfi_endproc\\n.size " #name \
    ", . - " #name "\\n"); void name(void);
ASM(copied, "mov x9, sp; and sp, x9, #-64; sub sp, sp, #256; mov sp, x9")
ASM(apart, "sub x9, sp, #64; mov sp, x9; add sp, x9, #64")
ASM(framed, "stp x29, x30, [sp, #-32]!; mov x29, sp; sub sp, sp, x0; sub sp, x29, #0;"
            "ldp x29, x30, [sp], #32")
ASM(saved, "mov x9, sp; sub sp, sp, #64; str x9, [sp, #32]; ldr x10, [sp, #32]; mov sp, x10")
ASM(huge, "mov x16, #4096; movk x16, #1, lsl 16; sub sp, sp, x16; add sp, sp, x16")
ASM(lent, "mov x9, sp; str x9, [x1, #32]; str x29, [x1]; mov x29, x1; mov sp, x0; blr x2;"
          "ldr x9, [x29, #32]; ldr x29, [x29]; mov sp, x9") // libffi
int fixed(int n) { int a[n]; __asm__ volatile("" :: "r"(a)); return a[n - 1]; }
int aligned(int n) { _Alignas(64) int a[16]; __asm__ volatile("" :: "r"(a)); return a[n]; }
int nested(int n) { int sum = 0; while (n--) { int a[n + 1]; a[n] = n;
    __asm__ volatile("" :: "r"(a)); sum += a[n]; } return sum; }
int large(int n) { char a[40000]; __asm__ volatile("" :: "r"(a)); return a[n]; }
int main(int argc, char **argv) { return fixed(argc) + aligned(argc) + nested(argc) + large(argc); }
"""


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-Os"])
@pytest.mark.parametrize(
    "flags", [[], ["-fstack-clash-protection", "-mbranch-protection=standard"]]
)
def test_what_restores_the_stack_pointer_on_arm64(
    tmp_path: Path, flags: list[str], level: str
) -> None:
    assert not found_in(tmp_path, ARM64_RESTORES, level, *flags, compiler=CROSS)


@pytest.mark.parametrize(("name", "expected"), [
    ("libc.so.6", {"__longjmp", "setcontext"}), ("libgcc_s.so.1", set()), ("libstdc++.so.6", set()),
])  # fmt: skip
def test_libraries_of_arm64(name: str, expected: set[str]) -> None:
    """Those of the cross compiler."""
    path = subprocess.run([CROSS, f"-print-file-name={name}"], capture_output=True, check=True)
    image = Image.open(path.stdout.decode().strip(), any_machine=True)
    table = symbols.read(image)
    found = {switch.address for switch in stack_switches.similar(image)}
    holding = map(table.functions.holding, found)
    names = {function.name for function in holding if function is not None}
    assert {name for name in names if not name.startswith("_Unwind_")} <= expected
    assert bool(found) or not expected


@pytest.mark.parametrize(
    ("library", "count"), [("libc.so.6", 2), ("/usr/aarch64-linux-gnu/lib/libc.so.6", 1)]
)
def test_contexts_of_the_c_library(library: str, count: int) -> None:
    """On arm64 swapcontext calls setcontext. What a context holds is the stack pointer after the
    return."""
    image = Image.open(library, any_machine=True)
    probes = [*context_switches.plan_probes(image)]
    assert [probe.role for probe in probes] == ["switch"] * count
    machine = Machine(image.machine)
    assert {probe.site.sp_delta for probe in probes} == {machine.return_address_size}
