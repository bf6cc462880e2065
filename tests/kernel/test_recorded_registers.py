"""Operands of markers in registers, against a program that has chosen what these hold."""

from __future__ import annotations

import random
import subprocess

import pytest

import lbtrace
from lbtrace.bpf.specs import Specs
from lbtrace.plan import Selection, make_plan

pytestmark = pytest.mark.host

CHOICE = random.Random(2)
LEGACY = {"a": "ax", "b": "bx", "c": "cx", "d": "dx"}
NAMES = {
    **{name: (f"r{name}", f"e{name}", name, f"{letter}l") for letter, name in LEGACY.items()},
    **{name: (f"r{name}", f"e{name}", name, f"{name}l") for name in ("si", "di", "bp")},
    **{f"r{n}": (f"r{n}", f"r{n}d", f"r{n}w", f"r{n}b") for n in range(8, 16)},
}
"""What assembly calls the 64, 32, 16 and 8 bits of each register."""
HELD = {name: CHOICE.getrandbits(64) for name in NAMES}
KEPT = ("bx", "bp", "r12", "r13", "r14", "r15")
ARGUMENTS = ("di", "si", "dx", "cx", "r8", "r9")


def choose(among: tuple[str, ...], many: int) -> list[tuple[str, int]]:
    """Operands, each with the value that it has."""
    operands = []
    for name in CHOICE.sample(among, min(many, len(among))):
        if CHOICE.random() < 0.1:
            constant = CHOICE.randrange(-(1 << 31), 1 << 31)
            operands.append((f"-4@${constant}", constant))
            continue
        width, sign = CHOICE.randrange(4), CHOICE.choice(("", "-"))
        size = 8 >> width
        bits = HELD[name] & (1 << 8 * size) - 1
        value = bits - (1 << 8 * size) if sign and bits >> (8 * size - 1) else bits
        operands.append((f"{sign}{size}@%{NAMES[name][width]}", value))
    return operands


MARKERS = [
    [(f"8@%{NAMES[name][0]}", HELD[name]) for name in reversed(ARGUMENTS)],
    [("1@%ah", HELD["ax"] >> 8 & 0xFF), ("-4@$-3", -3)],
    [("8@$9", 9)],
    *(
        choose(among, many)
        for among in (ARGUMENTS[:2], ARGUMENTS, KEPT, tuple(NAMES))
        for many in (1, 2, 3, 5, 6, 6, 8)
    ),
]
"""The first have up to six values of registers; those of more are fetched one by one."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One that hits each marker once, with the same in its registers."""
    lines = [".globl main", "main:", *(f"push %{NAMES[name][0]}" for name in KEPT)]
    lines += [f"movabs ${value:#x}, %{NAMES[name][0]}" for name, value in HELD.items()]
    for number, operands in enumerate(MARKERS):
        words = " ".join(operand for operand, _ in operands)
        lines += [
            *("990: nop", '.pushsection .note.stapsdt, "", "note"', ".balign 4"),
            *(".4byte 8, 992f - 991f, 3", '.asciz "stapsdt"', "991: .8byte 990b, 0, 0"),
            f'.asciz "chosen", "at{number}", "{words}"',
            *("992: .balign 4", ".popsection"),
        ]
    lines += [*(f"pop %{NAMES[name][0]}" for name in reversed(KEPT)), "xor %eax, %eax", "ret"]
    lines += ['.section .note.GNU-stack, "", @progbits']
    made = tmp_path_factory.mktemp("chosen") / "chosen"
    command = ["gcc", "-x", "assembler", "-", "-o", made]
    subprocess.run(command, input="\n".join([*lines, ""]), text=True, check=True)
    return str(made)


@pytest.mark.parametrize("where", ["", "pid > 1"])
def test_values_are_what_registers_hold(program: str, where: str, mode: lbtrace.Mode) -> None:
    """With a condition they are made of all operands by the kernel."""
    wanted = {"where": where} if where else {}
    options = lbtrace.Options(mode=mode)
    with lbtrace.trace(command=[program], usdt="chosen:*", options=options, **wanted) as session:  # type: ignore[arg-type]
        points = {point.name: point for point in session.calls()}
        assert not session.losses().total
    assert len(points) == len(MARKERS)
    for number, operands in enumerate(MARKERS):
        point = points[f"chosen:at{number}"]
        shown = [argument.value for argument in point.args]
        assert shown == [value for _, value in operands], operands


def test_registers_and_constants_are_recorded_as_they_are(program: str) -> None:
    for number, operands in enumerate(MARKERS):
        plan = make_plan(program, Selection((), markers=(f"chosen:at{number}",)))
        assert Specs(plan).generic == (len(operands) > 6), operands
