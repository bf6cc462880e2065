"""Where returns are seen instead of at `ret`, in assembly that says what is right."""

from __future__ import annotations

import subprocess

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.code import Exit
from lbtrace.model import Fetch
from lbtrace.plan.placement import Placer
from lbtrace.plan.return_sites import return_sites

FUNCTIONS = {
    # The stack protector: what is not taken counts, and the result comes from another register.
    "protected": (
        "push %rbx; sub $16, %rsp; mov %rdi, %rbx; call other; sub %fs:40, %rdx",
        "S: jne 1f; add $16, %rsp; mov %rbx, %rax; pop %rbx; ret; 1: call other; hlt",
    ),
    # Both ways of a conditional jump.
    "both": (
        "push %rbx; call other; test %eax, %eax",
        "S: je 1f; mov %ebx, %ecx; 1: pop %rbx; ret",
    ),
    # Two ways, one of them by a jump that is always taken.
    "two": (
        "push %rbx; call other; test %eax, %eax; jne 1f; call other",
        "S: jmp 2f; 1: call other; nop; S: jmp 2f; 2: pop %rbx; ret",
    ),
    # A one-byte nop.
    "nop": ("push %rbx; call other", "S: nop; mov $7, %eax; pop %rbx; ret"),
    # A way that comes from a call: its first instruction after that is single-stepped.
    "mixed": (
        "push %rbx; test %edi, %edi",
        "S: je 1f; call other; S: mov %eax, %ebx; 1: mov %ebx, %eax; pop %rbx; ret",
    ),
    # A frame with a base: how deep the stack is before leave is known from the beginning.
    "framed": (
        "push %rbp; mov %rsp, %rbp; sub $32, %rsp; call other; test %eax, %eax",
        "S: jne 1f; mov -8(%rbp), %rax; leave; ret; 1: call other; hlt",
    ),
    # The rest stays at ret: nothing but a call before it,
    "called": ("sub $8, %rsp; call other; add $8, %rsp", "S: ret"),
    # a load that may fault and be left by a handler,
    "loading": ("push %rbx; call other; nop; mov (%rbx), %rax; pop %rbx", "S: ret"),
    # a jump in a loop,
    "looping": ("1: call other; test %eax, %eax; jne 1b", "S: ret"),
    # one that is where the entry probe is, or before it,
    "early": ("test %edi, %edi; je 1f; call other; 1:", "S: ret"),
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    where = tmp_path_factory.mktemp("return-sites")
    lines = [".text", ".type other, @function", "other: ret", ".size other, .-other"]
    for name, parts in FUNCTIONS.items():
        body = "\n".join(parts).replace(";", "\n").split("\n")
        lines += [f".globl {name}", f".type {name}, @function", f"{name}:"]
        for number, line in enumerate(body):
            lines.append(line.replace("S:", f"site_{name}_{number}:"))
        lines.append(f".size {name}, .-{name}")
    (where / "all.s").write_text("\n".join(lines) + "\n")
    library = where / "liball.so"
    subprocess.run(["gcc", "-shared", "-o", library, where / "all.s"], check=True)
    return Image.open(str(library))


def exits_of(image: Image, name: str) -> tuple[int, list[Exit], Placer]:
    table = symbols.read(image)
    function = next(f for f in table.functions if f.name == name)
    placer = Placer(image, table, Machine(image.machine))
    return function.address, [*placer.exits(function).exits], placer


def labels(image: Image, name: str) -> list[int]:
    shown = subprocess.run(["nm", image.path], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in shown.splitlines() if f" site_{name}_" in line]
    return sorted(int(at, 16) for at, *_ in lines)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sites(image: Image, name: str) -> None:
    start, exits, placer = exits_of(image, name)
    function = next(f for f in symbols.read(image).functions if f.name == name)
    entry = placer.sites.entry(placer.around.code(function), (), returns=False)
    assert entry is not None
    returns = [e for e in exits if e.kind == "return"]
    found = [site for e in returns for site, _ in return_sites(e, (), start, entry)]
    assert sorted(site.address for site in found) == labels(image, name)


def moved(image: Image, name: str, register: str) -> tuple[Fetch, ...]:
    start, exits, placer = exits_of(image, name)
    entry = placer.sites.start(start, start, stub=False)
    assert entry is not None
    (exit,) = (e for e in exits if e.kind == "return")
    (found,) = return_sites(exit, (Fetch(register=register),), start, entry)
    return found[1]


def test_results_are_fetched_from_where_they_are(image: Image) -> None:
    assert moved(image, "protected", "ax") == (Fetch(register="bx"),)
    assert moved(image, "protected", "dx") == (Fetch(register="dx"),)
    assert moved(image, "nop", "ax") == (Fetch(base="constant", offset=7),)
    assert moved(image, "framed", "ax") == (Fetch(base="stack", offset=-16, derefs=(0,)),)


def test_what_is_nowhere_is_fetched_at_the_return(image: Image) -> None:
    start, exits, placer = exits_of(image, "both")
    entry = placer.sites.start(start, start, stub=False)
    assert entry is not None
    (exit,) = exits
    ((site, fetches),) = return_sites(exit, (Fetch(register="cx"),), start, entry)
    assert (site, fetches) == (exit.site, (Fetch(register="cx"),))


def test_conditions_follow_the_flags(image: Image) -> None:
    _, exits, _ = exits_of(image, "protected")
    (entered,) = (e for exit in exits for e in exit.entries)
    assert (entered.site.unless, entered.site.only, entered.site.sp_delta) == (0, 0x40, 24)
    _, exits, _ = exits_of(image, "both")
    (entered,) = (e for exit in exits for e in exit.entries)
    assert (entered.site.unless, entered.site.only) == (0, 0)
