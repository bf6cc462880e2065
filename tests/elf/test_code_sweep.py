"""Native reading of x86-64 code against iced-x86: instruction by instruction, and what functions
reach."""

from __future__ import annotations

import os
import random
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register
from lbtrace.machine._code_scan import ffi, lib

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.machine.x86_64 import code_sweep, exits
from lbtrace.machine.x86_64.reachable_calls import decoded_reach
from lbtrace.plan.placement import Placer

ROOT = Path(__file__).resolve().parents[2]
BASE = 0x1000
PREFIXES = ("", "", "", "66", "f2", "f3", "67", "f0", "2e", "3e", "64", "66662e", "f066", "6666")
FLOWS = {
    FlowControl.NEXT: (lib.FLOW_NEXT, lib.FLOW_NOP, lib.FLOW_STACK),
    FlowControl.UNCONDITIONAL_BRANCH: (lib.FLOW_JUMP,),
    FlowControl.CONDITIONAL_BRANCH: (lib.FLOW_BRANCH,),
    FlowControl.CALL: (lib.FLOW_CALL, lib.FLOW_SYSCALL),
    FlowControl.RETURN: (lib.FLOW_RETURN,),
    FlowControl.EXCEPTION: (lib.FLOW_TRAP,),
    FlowControl.INTERRUPT: (lib.FLOW_INT3,),
    FlowControl.INDIRECT_CALL: (lib.FLOW_CALL_THROUGH,),
    FlowControl.INDIRECT_BRANCH: (lib.FLOW_JUMP_THROUGH,),
}
TO = (lib.FLOW_JUMP, lib.FLOW_BRANCH, lib.FLOW_CALL)
FRAME = (Register.RSP, Register.RBP)


def test_the_opcodes_are_those_that_are_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "build/opcodes.py"), run_name="__main__")
    assert (ROOT / "lbtrace/native/x86_64_opcodes.h").read_text() == capsys.readouterr().out


@pytest.mark.parametrize("seed", [1, 2, int(os.environ["LBTRACE_SEED"])])
def test_instructions_are_read_as_by_a_full_decoder(seed: int) -> None:
    read = sum(1 for raw in instructions(seed, 30_000) if is_read_alike(raw))
    assert read > 10_000


def instructions(seed: int, count: int) -> Iterator[bytes]:
    """Bytes that begin as instructions do, some of them cut short."""
    choose = random.Random(seed)
    for _ in range(count):
        raw = bytes.fromhex(choose.choice(PREFIXES))
        raw += bytes([0x40 + choose.randrange(16)]) * choose.randrange(2)
        raw += b"\x0f" * choose.randrange(2) + choose.randbytes(16)
        yield raw[: choose.choice([3, 5, 16, 16, 16])]


def is_read_alike(raw: bytes) -> bool:
    """Whether native code reads an instruction, and as iced-x86 does."""
    ours = ffi.new("struct instruction *")
    if not lib.lbt_read_instruction(raw, len(raw), 0, BASE, ours):
        return False
    theirs = Decoder(64, raw, ip=BASE).decode()
    shown = f"{raw.hex()}: {theirs}"
    assert not theirs.is_invalid, shown
    flow = theirs.flow_control
    assert (ours.next, ours.flow in FLOWS[flow]) == (theirs.next_ip, True), shown
    assert (ours.flow == lib.FLOW_NOP) == (theirs.mnemonic == Mnemonic.NOP), shown
    assert (ours.flow == lib.FLOW_INT3) == (theirs.mnemonic == Mnemonic.INT3), shown
    if flow == FlowControl.NEXT:
        assert (ours.flow == lib.FLOW_STACK) == theirs.is_stack_instruction, shown
    if flow in (FlowControl.NEXT, FlowControl.INDIRECT_BRANCH):
        assert ours.first == first_register(theirs), shown
    framed = ours.base in (lib.RSP, lib.RBP) and not ours.indexed
    assert framed == (theirs.memory_base in FRAME and theirs.memory_index == 0), shown
    if framed:
        offset = theirs.memory_displacement - (theirs.memory_displacement >> 63 << 64)
        assert (ours.base, ours.displacement) == (theirs.memory_base - Register.RAX, offset), shown
    if theirs.is_ip_rel_memory_operand:
        slot = (ours.next + ours.displacement) % (1 << 64)
        assert (ours.relative, slot) == (1, theirs.ip_rel_memory_address), shown
    if ours.flow in TO:
        target = (ours.next + ours.immediate) % (1 << 64)
        assert target == theirs.near_branch_target, shown
    if ours.flow == lib.FLOW_JUMP_THROUGH:
        assert bool(ours.notrack) == (theirs.segment_prefix == Register.DS), shown
    return True


def first_register(instruction: Instruction) -> int:
    if not instruction.op_count or instruction.op0_kind != OpKind.REGISTER:
        return -1
    number = instruction.op0_register - Register.RAX
    return number if 0 <= number < 16 else -1


FILES = ("libc.so.6", "libcrypto.so.3", "libstdc++.so.6", "redis-server", "etcd-server", "node")


@pytest.mark.parametrize("name", FILES)
def test_functions_reach_what_a_full_decoder_finds(
    name: str, installed: Callable[[str], str]
) -> None:
    image = Image.open(installed(name))
    functions = [*symbols.read(image).functions]
    chosen = random.Random(name).sample(functions, min(1200, len(functions)))
    compared = 0
    for function in chosen:
        raw = image.code(function.address, function.size)
        code = Code(raw, function.address, 0, function.address + len(raw))
        for depth in (0, None, 24)[: 1 + function.address // 16 % 3]:
            found = code_sweep.reach(code, depth)
            if found is not None:
                compared += 1
                assert found == decoded_reach(code, depth), function
    assert compared > 0.8 * len(chosen)


@pytest.mark.parametrize("seed", [1, 956352183, int(os.environ["LBTRACE_SEED"])])
@pytest.mark.parametrize("kind", ["unusual", "counted"])
def test_any_order_of_instructions_reaches_the_same(seed: int, kind: str) -> None:
    """Real instructions in any order do what no compiler lets them do, to the stack and to rbp."""
    choose = random.Random(seed)
    image = Image.open("libc.so.6")
    chosen_pieces, others = (UNUSUAL, 60) if kind == "unusual" else (COUNTED, 1)
    pieces = [bytes.fromhex(piece) for piece in chosen_pieces]
    for function in choose.sample([*symbols.read(image).functions], others):
        raw = image.code(function.address, min(function.size, 300))
        pieces += [raw[i.ip : i.next_ip] for i in Decoder(64, raw, ip=0) if not i.is_invalid]
    compared = 0
    for _ in range(4000):
        chosen = choose.choices(pieces, k=choose.randrange(1, 30))
        raw = b"".join(chosen) + b"\xc3" * choose.randrange(2)
        code = Code(raw, BASE, 0, BASE + len(raw))
        depth = choose.choice([0, 0, 8, None])
        found = code_sweep.reach(code, depth)
        if found is not None:
            compared += 1
            assert found == decoded_reach(code, depth), (raw.hex(), depth)
    assert compared > 1500  # others are left to the full decoder


UNUSUAL = (
    *("4889e5", "4889ec", "55", "5d", "c9", "4889e8", "488b4500", "488b4508", "4883ec18"),
    *("4883c418", "488d6424f8", "488d6c2410", "4887e0", "4894", "4887ec", "4c8b5c2408", "5c"),
    *("ebfe", "7502", "eb02", "e800000000", "ff25aa000000", "ff15aa000000", "ffe0", "3effe0"),
    *("4801c8", "48c7c500000000", "48c7c400000000", "488b2424", "0fa1", "0fa0", "9c", "9d", "cc"),
    *("90", "6690", "0f1f00", "0f05", "0f0b", "4839ec", "4885ed", "4883fd08", "ff7500", "8f4500"),
)


COUNTED = (
    *("4889e0", "488d442408", "4889e5", "4883ec18", "eb02", "7502", "5b", "53", "c3", "4801cc"),
    *("31c9", "b908000000", "b108", "48c7c1f8ffffff", "4883c108", "48c1e103", "d1e1", "4801c1"),
    *("488b040c", "488b04cc", "488d040c", "488b00", "488b4008", "4801e1", "4829c8", "488b01"),
    *(
        "4889c1",
        "83c901",
        "83e1f8",
        "ffc1",
        "48ffc9",
        "f7d9",
        "48f7d1",
        "6bc908",
        "480fafc8",
        "480fbec1",
    ),
    *("0fb6c1", "8d4908", "488d0cc9", "4898", "d3e1", "48d3e9", "30c9", "0f94c1", "91", "4863c9"),
)
"""Numbers in rcx, and addresses on the stack that are computed with them."""


@pytest.mark.parametrize("name", ["redis-server", "libc.so.6", "libstdc++.so.6"])
def test_what_is_said_not_to_restart_does_not(name: str, installed: Callable[[str], str]) -> None:
    image = Image.open(installed(name))
    table = symbols.read(image)
    placer = Placer(image, table, Machine(image.machine))
    finder = exits.Finder()
    functions = random.Random(name).sample([*table.functions], 1000)
    seeming = 0
    for function in functions:
        (part, *more) = placer.around.parts(function)
        if not more and finder.seems_to_restart([part]) and not finder.may_restart([part]):
            seeming += 1
            assert not placer.exits(function).restarts, function
    assert seeming > 50
