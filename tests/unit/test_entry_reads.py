"""What functions certainly read of their callers' frames."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lbtrace.machine import Machine
from lbtrace.machine.code import Code

MACHINE = Machine("x86_64")
RET = bytes.fromhex("c3")
LOAD = bytes.fromhex("488b442408")  # mov rax, [rsp+8]
WIDER = bytes.fromhex("0f10442408")  # movups xmm0, [rsp+8]
STORE = bytes.fromhex("4889442408")  # mov [rsp+8], rax
ADD = bytes.fromhex("4801442408")  # add [rsp+8], rax
LEA = bytes.fromhex("488d442408")  # lea rax, [rsp+8]
INDEXED = bytes.fromhex("488b44cc08")  # mov rax, [rsp+rcx*8+8]
PUSH = bytes.fromhex("53")  # push rbx
POP = bytes.fromhex("5b")  # pop rbx
PUSH_IT = bytes.fromhex("ff742408")  # push [rsp+8]
FRAME = bytes.fromhex("554889e5")  # push rbp; mov rbp, rsp
BY_FRAME = bytes.fromhex("8b5d10")  # mov ebx, [rbp+10h]
ALIGN = bytes.fromhex("4883e4c0")  # and rsp, -40h
CALL = bytes.fromhex("e800000000")
COMPUTED = bytes.fromhex("ffe1")  # jmp rcx
OVER = bytes.fromhex("eb05")  # jmp +5
IF_OVER = bytes.fromhex("7505")  # jne +5
IF_OVER_CALL = bytes.fromhex("7506")  # jne +6
OTHER_BASE = bytes.fromhex("4889fd")  # mov rbp, rdi


def nothing(_address: int, _size: int) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        (LOAD + RET, {(8, 16)}),
        (WIDER + RET, {(8, 24)}),
        (ADD + RET, {(8, 16)}),
        (LEA + RET, {(8, 9)}),
        (INDEXED + RET, {(8, 9)}),
        (PUSH_IT + RET, {(8, 16)}),
        (STORE + RET, set()),
        (PUSH + LOAD + POP + RET, set()),  # its own frame, then the return address
        (PUSH + POP + LOAD + RET, {(8, 16)}),
        (FRAME + ALIGN + CALL + BY_FRAME + RET, {(8, 12)}),
        (FRAME + ALIGN + LOAD + RET, set()),
        (OTHER_BASE + BY_FRAME + RET, set()),
        (OVER + LOAD + RET, set()),  # nothing leads there
        (IF_OVER + LOAD + RET, {(8, 16)}),
        (COMPUTED + LOAD + RET, {(8, 16)}),
        (PUSH + COMPUTED + LOAD + RET, set()),
        (IF_OVER_CALL + PUSH + CALL + LOAD + RET, set()),  # the ways disagree
    ],
)
def test_reads(code: bytes, reads: set[tuple[int, int]]) -> None:
    found = MACHINE.find_caller_reads(Code(code, 0x1000, 0, 0x1000 + len(code)), nothing)
    assert found == reads


def test_other_processors() -> None:
    code = Code(bytes(4), 0x1000, 0, 0x1004)
    assert Machine("aarch64").find_caller_reads(code, nothing) is None


KEEP_DI = bytes.fromhex("48897c24f8")  # mov [rsp-8], rdi
KEEP_LOW = bytes.fromhex("40887c24f8")  # mov [rsp-8], dil
KEEP_SI = bytes.fromhex("48897424f0")  # mov [rsp-10h], rsi
SET_DI = bytes.fromhex("bf01000000")  # mov edi, 1
ZERO_DI = bytes.fromhex("31ff")  # xor edi, edi
MAYBE_DI = bytes.fromhex("480f44f8")  # cmove rdi, rax
BACK = bytes.fromhex("75f9")  # jne -7


@pytest.mark.parametrize(
    ("code", "registers", "reads"),
    [
        (KEEP_DI + RET, {"di"}, True),
        (KEEP_LOW + RET, {"di"}, True),
        (KEEP_DI + RET, {"di", "si"}, False),
        (KEEP_SI + KEEP_DI + RET, {"di", "si"}, True),
        (SET_DI + KEEP_DI + RET, {"di"}, False),
        (ZERO_DI + KEEP_DI + RET, {"di"}, False),
        (MAYBE_DI + KEEP_DI + RET, {"di"}, False),
        (CALL + KEEP_DI + RET, {"di"}, False),
        (IF_OVER + SET_DI + KEEP_DI + RET, {"di"}, True),
        (OVER + SET_DI + KEEP_DI + RET, {"di"}, True),
        (SET_DI + BACK + KEEP_DI + RET, {"di"}, False),
    ],
)
def test_reads_registers(code: bytes, registers: set[str], reads: bool) -> None:
    made = Code(code, 0x1000, 0, 0x1000 + len(code))
    assert MACHINE.reads_at_entry(made, registers, nothing) is reads


def jump(distance: int) -> bytes:
    return b"\xe9" + distance.to_bytes(4, "little", signed=True)


def call(distance: int) -> bytes:
    return b"\xe8" + distance.to_bytes(4, "little", signed=True)


PUSH_DI = bytes.fromhex("57")
MOVE_DI = bytes.fromhex("4889f8")  # mov rax, rdi


def reader(made: bytes, *others: bytes) -> tuple[Code, Callable[[int, int], bytes]]:
    """The code of a function, and what reads that of others, 0x1000 bytes after each other."""
    code = Code(made, 0x1000, 0, 0x1000 + len(made))
    pieces = {0x2000 + 0x1000 * n: each for n, each in enumerate(others)}

    def read(address: int, size: int) -> bytes:
        for start, piece in pieces.items():
            if start <= address < start + len(piece):
                return piece[address - start :][:size]
        return b""

    return code, read


@pytest.mark.parametrize(
    ("code", "others", "reads"),
    [
        (jump(0xFFB), (MOVE_DI + RET,), True),
        (call(0xFFB) + RET, (MOVE_DI + RET,), True),
        (SET_DI + jump(0xFF6), (MOVE_DI + RET,), False),
        (CALL + jump(0xFF6), (MOVE_DI + RET,), False),
        (jump(0xFFB), (SET_DI + MOVE_DI + RET,), False),
        (jump(0xFFB), (jump(0xFFB), MOVE_DI + RET), True),
        (jump(0xFFB), (jump(-5),), False),  # for ever
        # A variadic function, and what preserves registers, save what nobody passed.
        (call(0xFFB) + RET, (KEEP_DI + RET,), False),
        (call(0xFFB) + RET, (PUSH_DI + RET,), False),
        (call(0xFFB) + RET, (KEEP_LOW + RET,), True),
        (call(0x5000) + RET, (MOVE_DI + RET,), False),  # not in this file
    ],
)
def test_reads_passed_on(code: bytes, others: tuple[bytes, ...], reads: bool) -> None:
    made, read = reader(code, *others)
    assert MACHINE.reads_at_entry(made, {"di"}, read) is reads


@pytest.mark.parametrize(
    ("code", "others", "reads"),
    [
        (jump(0xFFB), (LOAD + RET,), {(8, 16)}),
        (jump(0xFFB), (jump(0xFFB), LOAD + RET), {(8, 16)}),
        (STORE + jump(0xFF6), (LOAD + RET,), set()),  # it reads what was stored there
        (jump(0xFFB), (STORE + jump(0xFF6), LOAD + RET), set()),
        (PUSH + jump(0xFFA), (LOAD + RET,), set()),  # not the caller's stack
        (call(0xFFB) + RET, (LOAD + RET,), set()),
        (jump(0xFFB), (LEA + RET,), set()),  # a variadic function refers to what is not passed
        (jump(0xFFB), (CALL + LOAD + RET,), set()),  # that may not return
        (jump(0xFFB), (LOAD + LEA + RET,), {(8, 16)}),
        (jump(0xFFB), (LEA + OVER + bytes(5) + LOAD + RET,), set()),  # to another function, maybe
        (LEA + jump(0xFF6), (LOAD + RET,), {(8, 9)}),  # what was filled by the pointer
        (jump(0x5000), (LOAD + RET,), set()),
    ],
)
def test_reads_what_is_passed_on(
    code: bytes, others: tuple[bytes, ...], reads: set[tuple[int, int]]
) -> None:
    made, read = reader(code, *others)
    assert MACHINE.find_caller_reads(made, read) == reads
