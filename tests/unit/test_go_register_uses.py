"""Which assembly of Go returns with the goroutine's register as it was called with."""

from __future__ import annotations

import pytest
from iced_x86 import Register

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.go_register_uses import may_return_with_another

KEEPS = {
    "push rbp; mov rbp, rsp; sub rsp, 48; mov [rsp+24], r14; mov r14, rdi; call; "
    "mov r14, [rsp+24]; add rsp, 48; pop rbp; ret": "554889e54883ec304c897424184989fe"
    "e80b0000004c8b7424184883c4305dc390",
    "push r14; xor r14d, r14d; pop r14; ret": "41564531f6415ec3",
    "push r14; push rax; mov r14, rdi; pop r14; pop r14; ret": "4156504989fe415e415ec3",
    "test rdi, rdi; je 1f; ret; 1: mov r14, rdi; ud2": "4885ff7401c34989fe0f0b",
    "push r14; mov r14, rdi; pop r14; jmp rax": "41564989fe415effe0",
    "mov rax, r14; ret": "4c89f0c3",
}

CHANGES = {
    "mov r14, rdi; ret": "4989fec3",
    "mov r14, rdi; jmp elsewhere": "4989fee9fb0f0000",
    "push r14; push rax; mov r14, rdi; pop r14; pop rax; ret": "4156504989fe415e58c3",
    "mov [rsp-8], r14; mov r14, rdi; test rdi, rdi; je 1f; mov r14, [rsp-8]; 1: ret": "4c897424f8"
    "4989fe4885ff74054c8b7424f8c3",
    "1: push r14; mov r14, rdi; dec rdi; jne 1b; pop r14; ret": "41564989fe48ffcf75f6415ec3",
}


@pytest.mark.parametrize(
    ("code", "changes"),
    [*((code, False) for code in KEEPS.values()), *((code, True) for code in CHANGES.values())],
    ids=[*KEEPS, *CHANGES],
)
def test_register_at_the_end(code: str, changes: bool) -> None:
    held = bytes.fromhex(code)
    function = Code(held, 0x1000, 0x1000, 0x1000 + len(held))
    assert may_return_with_another(function, Register.R14) == changes
