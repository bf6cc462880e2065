"""Places of probes, judged by objdump's disassembly of every function."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache

import pytest

from lbtrace.abi import locate_values
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.fetch.call_values import plan_values
from lbtrace.machine import Machine
from lbtrace.model import LONG, Formal, Prototype, Scalar
from lbtrace.plan import Placer

LINE = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t(.*)$")
TARGET = re.compile(r"^(?:bnd )?(?:j\w+|loop\w*)\s+([0-9a-f]+)(?:\s|$)")
STACK = re.compile(r"\b(push|pop|call|ret|leave|enter|jmp)\b|\s[re]?sp\b|\bxchg.*[re]?sp\b")
"""What moves the stack pointer, or leaves; to read it (``mov rsi,rsp``) changes nothing."""

FAMILIES = {
    "di": "rdi|edi|di|dil",
    "si": "rsi|esi|si|sil",
    "dx": "rdx|edx|dx|dl|dh",
    "cx": "rcx|ecx|cx|cl|ch",
    "r8": "r8[dwb]?",
    "r9": "r9[dwb]?",
}
READ_ONLY = ("cmp", "test", "nop", "endbr64", "bt ", "ucomis", "comis", "prefetch")
EMULATED = re.compile(r"^(bnd )?(push +r\w+|nop|nop[wl]? .*|j\w+ .*|call .*|pause)$")

SUBJECTS = [
    "/usr/bin/python3.11",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
]


@cache
def disassemble(tool, path):
    """Text by address, sorted addresses, and the targets of all direct jumps, sorted."""
    texts: dict[int, str] = {}
    targets: list[tuple[int, int]] = []
    for line in tool("objdump", "-d", "-Mintel", "-w", path).splitlines():
        row = LINE.match(line)
        if not row:
            continue
        address, text = int(row[1], 16), row[3].split("#")[0].split("<")[0].strip()
        texts[address] = text
        jump = TARGET.match(text)
        if jump:
            targets.append((int(jump[1], 16), address))
    return texts, sorted(texts), sorted(targets)


def writes(text: str, family: str) -> bool:
    """Whether an instruction may write a register, judged by its text."""
    if text.startswith(READ_ONLY):
        return False
    operands = text.partition(" ")[2].strip()
    return bool(re.match(rf"(?:{FAMILIES[family]})(?:,|$)", operands))


def passing(count):
    formals = tuple(Formal(f"a{n}", LONG, 8, (Scalar(0, 8, "integer"),)) for n in range(count))
    prototype = Prototype(formals)
    return plan_values(prototype, locate_values("x86_64", prototype), 6)


def check(tool, path, count):
    image = Image.open(path)
    table = symbols.read(image)
    placer = Placer(image, table, Machine("x86_64"))
    texts, addresses, targets = disassemble(tool, path)
    moved = 0
    for function in table.functions:
        site = placer.place(function, passing(count), returns=True)
        if site is None:
            continue
        assert site.sp_delta == 0
        assert site.offset == image.offset(site.address)
        assert site.address in texts, f"{function.name}: not an instruction boundary"
        assert bool(EMULATED.match(texts[site.address])) or not site.emulated, function.name
        if site.address == function.address:
            continue
        moved += 1
        assert function.address < site.address < function.address + function.size
        first = bisect_right(targets, (function.address, 1 << 64))
        last = bisect_right(targets, (site.address, 1 << 64))
        assert targets[first:last] == [], function.name
        assert not bisect_right(table.starts, site.address) - bisect_right(
            table.starts, function.address
        ), function.name
        before = slice(
            bisect_left(addresses, function.address), bisect_left(addresses, site.address)
        )
        for address in addresses[before]:
            text = texts[address]
            assert not STACK.search(re.sub(r"\[.*?\]", "", text)), (function.name, text)
            assert not any(writes(text, r) for r in list(FAMILIES)[:count]), (function.name, text)
    return moved


@pytest.mark.parametrize("count", [0, 2, 6])
@pytest.mark.parametrize("path", SUBJECTS)
def test_places_on_the_system(tool, path, count):
    assert check(tool, path, count) > 50


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("protection", ["-fcf-protection", "-fcf-protection=none"])
def test_places_in_built_programs(build, tool, compiler, level, protection):
    check(tool, build(level, protection, compiler=compiler), 2)


def test_a_cet_function_is_probed_after_its_landing_pad(build):
    path = build("-O2", "-fcf-protection")
    image = Image.open(path)
    table = symbols.read(image)
    fib = next(f for f in table.functions if f.name in ("fib", "renamed"))
    site = Placer(image, table, Machine("x86_64")).place(fib, passing(1), returns=True)
    assert site is not None
    assert site.address >= fib.address + 4
    assert site.emulated
