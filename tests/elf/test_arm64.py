"""Arm64 code, judged by objdump's disassembly of cross-compiled programs and libraries."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from functools import cache
from pathlib import Path

import pytest

from lbtrace.abi import locate_values
from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.fetch.call_values import plan_values
from lbtrace.machine import Machine
from lbtrace.machine.aarch64 import instructions
from lbtrace.machine.code import Code
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import LONG, Formal, Prototype, Scalar
from lbtrace.plan import Placer
from lbtrace.plan.code_context import CodeContext

TOOLS = "aarch64-linux-gnu-"
LIBRARIES = Path("/usr/aarch64-linux-gnu/lib")
LINE = re.compile(r"^\s*([0-9a-f]+):\t([0-9a-f]{8}) \t(.*)$", re.M)
STUB = re.compile(r"^([0-9a-f]+) <([^@>]+)(?:@[^>]*)?@plt>:", re.M)
TARGET = re.compile(r"^(?:b|b\.\w+|cbn?z|tbn?z)\s(?:.*, )?([0-9a-f]+) <")
SIMULATED = re.compile(r"^(b|b\.\w+|bl|cbn?z|tbn?z|br|blr|ret|adrp?)\b")
USES_STACK_OR_LINK = re.compile(
    r"\bsp\b|\b[xw]30\b|^(pac|aut|xpac)|^(b|bl|br|blr|b\.\w+|cbn?z|tbn?z|ret)\b"
)

FORMS = """
    .text
    .type plain, @function
plain: ret
    .size plain, .-plain
    .type tailing, @function
tailing:
    cbz x0, 1f
    b elsewhere
1:  ret x1
    .size tailing, .-tailing
    .type through, @function
through:
    stp x29, x30, [sp, #-16]!
    ldr x1, [x0]
    ldp x29, x30, [sp], #16
    br x1
    .size through, .-through
    .type switched, @function
switched:
    adr x1, 2f
    add x1, x1, w0, sxtb #2
    br x1
2:  mov x0, #1
    ret
    mov x0, #2
    ret
    .size switched, .-switched
    .type computed, @function
computed:
    sub sp, sp, #16
    ldr x1, [x2, x0, lsl #3]
    br x1
    add sp, sp, #16
    ret
    .size computed, .-computed
    .type signed, @function
signed:
    paciasp
    .inst 0xd65f0bff
    .size signed, .-signed
    .type tested, @function
tested:
    tbnz w0, #3, plain
    cbz x0, plain
    ret
    .size tested, .-tested
    .type again, @function
again:
    subs x0, x0, #1
    b.ne again
    b again
    .size again, .-again
"""


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Image:
    where = tmp_path_factory.mktemp("forms")
    (where / "forms.s").write_text(FORMS)
    subprocess.run(
        [f"{TOOLS}gcc", "-shared", "-o", where / "libforms.so", where / "forms.s"], check=True
    )
    return Image.open(str(where / "libforms.so"), any_machine=True)


@pytest.mark.parametrize(
    ("name", "expected", "hidden"),
    [
        ("plain", [("return", 0)], 0),
        ("tailing", [("tail", 4), ("return", 8)], 0),
        ("through", [("tail", 12)], 0),
        ("switched", [], 1),
        ("computed", [("tail", 8)], 0),
        ("signed", [], 1),
        ("tested", [("return", 8)], 2),
        ("again", [], 0),
    ],
)
def test_forms(forms: Image, name: str, expected: list[tuple[str, int]], hidden: int) -> None:
    function = next(f for f in symbols.read(forms).functions if f.name == name)
    found = Machine("aarch64").exit_finder().exits([body(forms, function)], Alone())
    assert [(e.kind, e.site.address - function.address) for e in found.exits] == expected
    assert len(found.hidden) == hidden
    direct = [bool(exit.target) for exit in found.exits if exit.kind == "tail"]
    assert direct == [exit.site.jump is None for exit in found.exits if exit.kind == "tail"]


MOVES = {
    "stp x29, x30, [sp, #-16]!": True,
    "ldp x29, x30, [sp], #16": True,
    "str x1, [sp, #-16]!": True,
    "ldr q0, [sp], #16": True,
    "sub sp, sp, #32": True,
    "add sp, sp, x1": True,
    "mov sp, x29": True,
    "and sp, x1, #-16": True,
    "str x1, [sp, #16]": False,
    "ldp x1, x2, [sp, #16]": False,
    "ldr x1, [x2], #8": False,
    "cmp x1, #3": False,
    "tst x1, #3": False,
    "cmn sp, x1": False,
    "ldr xzr, [x1]": False,
    "b .": False,
}


class Alone:
    """A function with nothing around it: see `lbtrace.machine.function_code.Around`."""

    def more(self, address: int) -> Code | None:
        return None

    def landing_pads(self, part: Code) -> tuple[int, ...]:
        return ()

    def read(self, address: int, size: int) -> bytes:
        return b""

    def word(self, address: int) -> int | None:
        return None

    def ends(self, address: int, pointer: bool = False) -> bool:
        return False


def test_what_moves_the_stack_pointer(tmp_path: Path) -> None:
    (tmp_path / "moves.s").write_text("\n".join(MOVES) + "\n")
    subprocess.run([f"{TOOLS}as", "-o", tmp_path / "moves.o", tmp_path / "moves.s"], check=True)
    subprocess.run(
        [f"{TOOLS}objcopy", "-O", "binary", "-j", ".text", "moves.o", "moves"],
        cwd=tmp_path,
        check=True,
    )
    code = Code((tmp_path / "moves").read_bytes(), 0, 0, 0)
    found = [instructions.moves_stack(word) for _, word in instructions.words(code)]
    assert dict(zip(MOVES, found, strict=True)) == MOVES


def body(image: Image, function: symbols.Function) -> Code:
    code = image.code(function.address, function.size)
    return Code(code, function.address, function.offset, function.address + function.size)


@cache
def disassemble(path: str) -> tuple[dict[int, str], list[int], list[int]]:
    """Instructions by address; the addresses of returns; the targets of jumps."""
    text = subprocess.run(
        [f"{TOOLS}objdump", "-d", path], capture_output=True, text=True, check=True
    ).stdout
    texts = {int(m[1], 16): m[3].split("//")[0].strip() for m in LINE.finditer(text)}
    texts = {address: re.sub(r"\s+", " ", t) for address, t in texts.items()}
    returns = [address for address, t in texts.items() if re.match(r"ret\b", t)]
    targets = [int(m[1], 16) for m in map(TARGET.match, texts.values()) if m]
    return texts, returns, sorted(targets)


@pytest.fixture(scope="module", params=["libc.so.6", "libstdc++.so.6", "exact-cet", "exact-O2"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if ".so" in request.param:
        return str((LIBRARIES / request.param).resolve())
    source = Path(__file__).resolve().parents[1] / "programs/exact.c"
    protection = ["-mbranch-protection=standard"] * request.param.endswith("cet")
    made = tmp_path_factory.mktemp("programs") / request.param
    subprocess.run([f"{TOOLS}gcc", "-O2", "-pthread", *protection, source, "-o", made], check=True)
    return str(made)


UNLIKE = {
    "swapcontext",  # it goes on where the context says
    # Its second return follows the call of a function that ends in __libc_fatal, which ends
    # the process: no source says so, and what follows is never run.
    "__libc_alloc_buffer_allocate",
}
"""Functions with returns that are not like those of others."""


def test_returns(subject: str) -> None:
    image = Image.open(subject, any_machine=True)
    _, returns, _ = disassemble(subject)
    around = CodeContext(image, symbols.read(image), Machine("aarch64"))
    sites = ProbeSites(Machine("aarch64"), around)
    compared = 0
    for function in symbols.read(image).functions:
        exits = sites.exits(around.body(function))
        low = bisect_left(returns, function.address)
        high = bisect_left(returns, function.address + function.size)
        mine = [e.site.address for e in exits.exits if e.kind == "return"]
        end = function.address + function.size
        if not exits.hidden and function.name not in UNLIKE:
            assert [a for a in mine if function.address <= a < end] == returns[low:high]
        compared += high > low
    assert compared > 20


@pytest.mark.parametrize("count", [0, 2, 6])
@pytest.mark.parametrize("returns", [True, False])
def test_places(subject: str, count: int, returns: bool) -> None:
    image = Image.open(subject, any_machine=True)
    texts, _, targets = disassemble(subject)
    table = symbols.read(image)
    placer = Placer(image, table, Machine("aarch64"))
    formals = tuple(Formal(f"a{n}", LONG, 8, (Scalar(0, 8, "integer"),)) for n in range(count))
    prototype = Prototype(formals)
    passing = plan_values(prototype, locate_values("aarch64", prototype), 6)
    simulated = 0
    for function in table.functions:
        site = placer.place(function, passing, returns=returns)
        if site is None or site.address not in texts:
            continue
        assert site.offset == image.offset(site.address)
        text = texts[site.address]
        assert site.emulated == bool(SIMULATED.match(text) or text == "nop"), (text, site)
        simulated += site.emulated
        jumps = bisect_left(targets, function.address + 4), bisect_left(targets, site.address + 1)
        assert site.address == function.address or jumps[0] == jumps[1], function.name
        sunk = 0
        for address in range(function.address, site.address, 4):
            before = texts[address]
            sub = re.match(r"sub sp, sp, #(0x[0-9a-f]+)(, lsl #12)?$", before)
            if sub and not returns:
                sunk += int(sub[1], 16) << (12 if sub[2] else 0)
                continue
            assert not before.startswith(("st", "b ", "ret")), (function.name, before)
            assert not (returns and USES_STACK_OR_LINK.search(before)) or before.startswith(
                ("bti", "ldr", "ldp")
            ), (function.name, before)
            written = re.match(r"\w+ [xw](\d+)\b", before)
            reads_only = before.startswith(("cmp", "cmn", "tst", "ccmp"))
            assert not written or reads_only or int(written[1]) >= count, (function.name, before)
        assert site.sp_delta == sunk
    assert simulated > 5


def test_stubs(subject: str) -> None:
    text = subprocess.run(
        [f"{TOOLS}objdump", "-d", subject], capture_output=True, text=True, check=True
    ).stdout
    named = {int(m[1], 16): m[2] for m in STUB.finditer(text) if "*" not in m[2]}
    found = plt.stubs(Image.open(subject, any_machine=True))
    assert {at: stub.name for at, stub in found.items()}.items() <= named.items()
    assert len(found) >= 0.95 * len(named)
