"""Arm64 code, judged by objdump's disassembly of cross-compiled programs and libraries."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from functools import cache
from pathlib import Path

import pytest

from lbtrace import arch
from lbtrace.arch import Code, arm64_words
from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.model import LONG, Formal, Prototype, Scalar
from lbtrace.model.jumps import RegisterTest
from lbtrace.plan import Placer

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
        ("switched", [("return", 16), ("return", 24)], 0),
        ("computed", [("tail", 8), ("return", 16)], 0),
        ("signed", [], 1),
        ("tested", [("tail", 0), ("tail", 4), ("return", 8)], 0),
        ("again", [("tail", 4), ("tail", 8)], 0),
    ],
)
def test_forms(forms: Image, name: str, expected: list[tuple[str, int]], hidden: int) -> None:
    function = next(f for f in symbols.read(forms).functions if f.name == name)
    found = arch.of("aarch64").exit_finder().exits([body(forms, function)], lambda _: None)
    assert [(e.kind, e.site.address - function.address) for e in found.exits] == expected
    assert len(found.hidden) == hidden


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


def test_returns(subject: str) -> None:
    image = Image.open(subject, any_machine=True)
    _, returns, _ = disassemble(subject)
    finder = arch.of("aarch64").exit_finder()
    compared = 0
    for function in symbols.read(image).functions:
        found = finder.exits([body(image, function)], lambda _: None).exits
        low = bisect_left(returns, function.address)
        high = bisect_left(returns, function.address + function.size)
        assert [e.site.address for e in found if e.kind == "return"] == returns[low:high]
        compared += high > low
    assert compared > 20


TESTS = re.compile(r"(cb|tb)(n?)z ([wx])(\d+), (?:#(\d+), )?")


def test_what_jumps_ask_of_registers(subject: str) -> None:
    image = Image.open(subject, any_machine=True)
    asked = 0
    for address, text in disassemble(subject)[0].items():
        word = int.from_bytes(image.code(address, 4), "little")
        told = TESTS.match(text)
        if told is None:
            assert arm64_words.test(word) is None, text
            continue
        width = 1 if told[1] == "tb" else 64 if told[3] == "x" else 32
        mask = (1 << width) - 1 << int(told[5] or 0)
        expected = RegisterTest(f"x{told[4]}", mask, nonzero=bool(told[2]))
        assert arm64_words.test(word) == expected, text
        asked += 1
    assert asked > 10


@pytest.mark.parametrize("count", [0, 2, 6])
@pytest.mark.parametrize("returns", [True, False])
def test_places(subject: str, count: int, returns: bool) -> None:
    image = Image.open(subject, any_machine=True)
    texts, _, targets = disassemble(subject)
    table = symbols.read(image)
    placer = Placer(image, table, arch.of("aarch64"))
    formals = tuple(Formal(f"a{n}", LONG, 8, (Scalar(0, 8, "integer"),)) for n in range(count))
    passing = arch.of("aarch64").passing(Prototype(formals), 6)
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
