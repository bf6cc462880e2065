"""How large the frames are that functions make before anything else."""

from __future__ import annotations

import pytest

from lbtrace.machine import Machine
from lbtrace.machine.code import Code

PUSHES = bytes.fromhex("55 4157 4156 53")  # push rbp, r15, r14, rbx
RET = bytes.fromhex("c3")
CALL = bytes.fromhex("e800000000")
LOAD = bytes.fromhex("488b442420")  # mov rax, [rsp+20h]
ALLOCATE = bytes.fromhex("4883ec18")  # sub rsp, 18h


@pytest.mark.parametrize(
    ("code", "size"),
    [
        (ALLOCATE + LOAD + CALL, 0x20),
        (bytes.fromhex("f30f1efa") + ALLOCATE + CALL, 0x20),  # endbr64
        (PUSHES + bytes.fromhex("4881ec18010000") + CALL, 0x140),  # sub rsp, 118h
        (PUSHES + bytes.fromhex("4881ec20010000") + CALL, None),  # not aligned
        (PUSHES[:-1] + bytes.fromhex("4881ec20010000") + CALL, 0x140),
        (PUSHES + bytes.fromhex("50") + CALL, 48),  # push rax
        (PUSHES + LOAD + RET, 40),
        (PUSHES + LOAD + bytes.fromhex("57") + CALL, None),  # push rdi, of the call's arguments
        (LOAD + PUSHES + CALL, None),  # the frame is made later
        (LOAD + RET, 8),
        (LOAD + CALL + RET, None),
        (LOAD + bytes.fromhex("7401") + RET + RET, 8),  # je, within the function
        (LOAD + bytes.fromhex("7440") + RET + RET, None),  # je, to a part of it elsewhere
        (bytes.fromhex("55 4889e5") + CALL, 16),  # mov rbp, rsp
        (bytes.fromhex("4c8d542408 4883e4e0") + CALL, None),  # and rsp, -20h
    ],
)
def test_size(code: bytes, size: int | None) -> None:
    machine = Machine("x86_64")
    assert machine.find_frame_size(Code(code, 0x1000, 0, 0x1000 + len(code))) == size


def test_a_beginning_without_a_frame() -> None:
    machine = Machine("x86_64")
    code = LOAD + LOAD
    assert machine.find_frame_size(Code(code, 0x1000, 0, 0x1000 + 600)) is None
