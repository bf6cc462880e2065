"""Assembly made at random, which passes an address on its stack to other code that accesses its
return address by that, or something next to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.plan.harmless_functions import Judge

PARAMETERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
MOVES = (
    "mov %{0}, %{1}",
    "lea 24(%{0}), %{1}; sub $24, %{1}",
    "push %{0}; pop %{1}",
    "mov %{0}, -16(%rsp); mov -16(%rsp), %{1}",
    "mov %{0}, %{1}; add $8, %{1}; dec %{1}; lea -7(%{1}), %{1}",
)
ACCESSES = (
    "mov {at}(%{by}), %rax",
    "addq $1, {at}(%{by})",
    "movups {at}(%{by}), %xmm0",
    "mov {at}(%{by}), %eax",
    "cmpq $0, {at}(%{by})",
    "mov %rax, {at}(%{by})",
)
FUNCTION = """
.p2align 4
.globl {name}
.type {name}, @function
{name}:
{body}
.size {name}, . - {name}
"""
OUTSIDE = 16
"""More than any access reads."""


def made(choose: Random, name: str, off: int) -> Iterator[str]:
    """A function, the code that it calls, or jumps to, and code between them; the return address
    is accessed if ``off`` is 0."""
    room, step = 8 * choose.randrange(2, 30), 8 * choose.randrange(-4, 9)
    first, between, last = (choose.choice(PARAMETERS) for _ in range(3))
    step = min(step, room - 8)
    hops = choose.randrange(3)
    framed = choose.random() < 0.4
    begin, depth = f"sub ${room}, %rsp", room
    end = f"add ${room}, %rsp; ret"
    if framed:
        begin, depth = f"push %rbp; mov %rsp, %rbp; sub ${room}, %rsp", room + 8
        end = "leave; ret"
    pointer = choose.choice(("rax", "rbx", "r10", "r12", first))
    passes = f"{choose.choice(MOVES).format(pointer, first)}; call {name}_0; {end}"
    yield FUNCTION.format(name=name, body=f"{begin}; lea {step}(%rsp), %{pointer}; {passes}")
    at = depth - step + off
    for hop in range(hops):
        more = 8 * choose.randrange(-3, 4)
        held = choose.choice(("rax", "r11", "rbx", first))
        way = f"{choose.choice(MOVES).format(first, held)}; lea {more}(%{held}), %{between}"
        goes = (
            f"jmp {name}_{hop + 1}"
            if choose.random() < 0.5
            else (f"push %rbx; call {name}_{hop + 1}; pop %rbx; ret")
        )
        yield FUNCTION.format(name=f"{name}_{hop}", body=f"{way}; {goes}")
        at -= more
        first, between = between, choose.choice(PARAMETERS)
    by = choose.choice(("rax", "r10", "r11", "rbx", last))
    access = choose.choice(ACCESSES).format(at=at, by=by)
    body = f"{choose.choice(MOVES).format(first, by)}; {access}; ret"
    yield FUNCTION.format(name=f"{name}_{hops}", body=body)


def kept(folder: Path, text: str) -> set[str]:
    """The functions of assembly whose return addresses must stay as they are."""
    (folder / "passed.s").write_text(f'.text\n{text}.section .note.GNU-stack,"",@progbits\n')
    program = folder / "passed.so"
    subprocess.run(["gcc", "-shared", "-w", folder / "passed.s", "-o", program], check=True)
    image = Image.open(str(program))
    table = symbols.read(image)
    verdicts = Judge(image, table, plt.stubs(image), frozenset()).judge(table.functions)
    return {f.name for f in table.functions if verdicts[f.address].keeps}


@pytest.mark.parametrize("seed", [1, 2, int(os.environ["LBTRACE_SEED"])])
def test_whose_return_address_is_reached_by_what_it_calls(tmp_path: Path, seed: int) -> None:
    choose = Random(seed)
    text = "".join(part for n in range(300) for part in made(choose, f"f{n}", 0))
    assert not {f"f{n}" for n in range(300)} - kept(tmp_path, text)


@pytest.mark.parametrize("seed", [1, 2, int(os.environ["LBTRACE_SEED"])])
def test_what_is_next_to_it_may_be_reached(tmp_path: Path, seed: int) -> None:
    """Below it are variables, above it arguments."""
    choose = Random(seed)
    offs = {f"f{n}": choose.choice((-32, -OUTSIDE, OUTSIDE, 40)) for n in range(300)}
    text = "".join(part for name, off in offs.items() for part in made(choose, name, off))
    assert not set(offs) & kept(tmp_path, text)
