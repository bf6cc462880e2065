"""Which parts of their frames functions read."""

from __future__ import annotations

import pytest

from lbtrace.machine import Machine
from lbtrace.machine.code import Code

MACHINE = Machine("x86_64")
RET = bytes.fromhex("c3")
CALL = bytes.fromhex("e800000000")
STORE = bytes.fromhex("48897c2420")  # mov [rsp+20h], rdi
LOAD = bytes.fromhex("488b442420")  # mov rax, [rsp+20h]
ADD = bytes.fromhex("4801442420")  # add [rsp+20h], rax
LEA = bytes.fromhex("4c8d642420")  # lea r12, [rsp+20h]
STORE_BY_POINTER = bytes.fromhex("49893c24")  # mov [r12], rdi
LOAD_BY_POINTER = bytes.fromhex("498b0424")  # mov rax, [r12]
PASS = bytes.fromhex("4c89e7")  # mov rdi, r12
INDEXED = bytes.fromhex("488b04cc")  # mov rax, [rsp+rcx*8]
OTHER = bytes.fromhex("488b442438")  # mov rax, [rsp+38h]


def _code(code: bytes) -> Code:
    return Code(code, 0x1000, 0, 0x1000 + len(code))


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        (STORE, False),
        (LOAD, True),
        (ADD, True),
        (STORE + OTHER, False),
        (INDEXED, True),
        (LEA + STORE_BY_POINTER, False),
        (LEA + LOAD_BY_POINTER, True),
        (LEA + PASS + CALL, True),
    ],
)
def test_reads(code: bytes, reads: bool) -> None:
    assert MACHINE.reads_frame(_code(code + RET), "sp", 0x20, 0x38) is reads
