"""Code that reads return addresses by its caller's frame pointer, assembled by hand."""

from __future__ import annotations

import pytest

from lbtrace.machine.aarch64.reachable_calls import walkers as arm64_walkers
from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.reachable_calls import reach, walkers

BASE = 0x401000


def walks(code: str, depth: int | None = 0) -> bool:
    raw = bytes.fromhex(code)
    return reach(Code(raw, BASE, 0, BASE + len(raw)), depth).walks


def test_who_takes_its_callers_frame_pointer_walks():
    assert walks("4889e8 c3")  # mov rax, rbp
    assert walks("488b4508 c3")  # mov rax, [rbp+8]
    assert walks("488b4500 c3")  # mov rax, [rbp]


def test_who_has_a_frame_or_another_use_of_it_does_not():
    assert not walks("55 4889e5 5d c3")
    assert not walks("55 4889fd 488b4508 5d c3")  # mov rbp, rdi
    assert not walks("55 31ed 4889e8 5d c3")  # xor ebp, ebp
    assert not walks("488b4508 c3", depth=16)  # a part that was split off


def test_walkers_are_found_in_code():
    walker = bytes.fromhex("55 4889e5 488b4500 5d 488b4008 c3")  # __builtin_return_address(1)
    unoptimised = bytes.fromhex("55 4889e5 4883ec10 48896df8 c9 c3")  # __builtin_frame_address(0)
    scheduled = bytes.fromhex("55 31c0 4889e5 4989e8 4d8b00 5d c3")
    array = bytes.fromhex("55 4883ec40 4889e5 4889ef 4883c440 5d c3")
    framed = bytes.fromhex("55 4889e5 488b45f8 5d c3")
    other = bytes.fromhex("55 4889fd 488b4500 5d c3")  # rbp is no frame pointer
    code = framed + walker + other + unoptimised + array + scheduled
    expected = [walker, unoptimised, scheduled]
    assert [*walkers(code, BASE, lambda _: 1 << 64)] == [
        BASE + code.index(part) for part in expected
    ]


FRAMED = "55 4889e5 5331db "
FAR = "8b0425001000004801c3 " * 40 + "7404 5b 5d c3 "
FAR_WALKERS = {
    "mov rax, [rbp]": FAR + "488b4500 488b4008 5b 5d c3",
    "mov r12, rbp": FAR + "4989ec 5b 5d c3",
    "mov [rbp-256], rbp": FAR + "4889ad00ffffff 5b 5d c3",
    "after an instruction of AVX": "c5f877 " + FAR + "488b4500 5b 5d c3",
}
NO_WALKERS = {
    "mov rbp, rdi; mov rax, [rbp]": FAR + "4889fd 488b4500 5b 5d c3",
    "mov ebp, edi": FAR + "89fd 488b4500 5b 5d c3",
    "mov rax, [rbp-8]": FAR + "488b45f8 5b 5d c3",
    "another function, which saves rbp": FAR + "5b 5d c3 55 4889fd 488b4500 5d c3",
    "mov rsp, rbp": FAR + "4889ec 5b 5d c3",
    "lea rax, [rbp]": FAR + "488d4500 5b 5d c3",
    "shlx rbp, rbp, rax": "c4e2f9f7ed " + FAR + "488b4500 5b 5d c3",
}


@pytest.mark.parametrize("what", [*FAR_WALKERS, *NO_WALKERS])
def test_walkers_are_found_at_any_distance(what: str):
    code = bytes.fromhex(FRAMED + {**FAR_WALKERS, **NO_WALKERS}[what])
    found = [*walkers(code, BASE, lambda _: 1 << 64)]
    assert found == ([BASE] if what in FAR_WALKERS else [])
    at_once = [*walkers(code, BASE, lambda address: address + 8)]
    assert not at_once  # of another function


def test_walkers_are_found_in_arm64_code():
    code = bytes.fromhex("fd7bbfa9 fd030091 a00340f9 000440f9 fd7bc1a8 c0035fd6")
    assert [*arm64_walkers(code, BASE, lambda _: 1 << 64)] == [BASE + 8]  # ldr x0, [x29]


def found(text: str) -> tuple[bool, bool, str]:
    """Whether assembly reads its return address or follows frame pointers, and what is in doubt."""
    raw = bytes.fromhex(text)
    code = Code(raw, BASE, 0, BASE + len(raw))
    result = reach(code, 0)
    return result.keeps, result.walks, result.doubt


READS = {
    "mov rax, rsp; mov rcx, [rax]": "4889e0 488b08 c3",
    "lea rdi, [rsp+8]; mov rax, [rdi-8]": "488d7c2408 488b47f8 c3",
    "push rbp; mov rbp, rsp; mov rax, [rbp+8]": "55 4889e5 488b4508 5d c3",
    "enter 16, 0; mov rax, [rbp+8]": "c8100000 488b4508 c9 c3",
    "enter 16, 0; mov rax, [rsp+24]": "c8100000 488b442418 c9 c3",
    "pop rcx; jmp rcx": "59 ffe1",
    "xchg rax, [rsp]": "48870424 c3",
    "add rsp, 8; jmp [rsp-8]": "4883c408 ff6424f8",
    "add rsp, 8; ret": "4883c408 c3",
    "push rsp; pop rcx; mov rax, [rcx]": "54 59 488b01 c3",
    "mov [rsp-8], rsp; mov rcx, [rsp-8]; mov rax, [rcx]": "48896424f8 488b4c24f8 488b01 c3",
    "mov rsi, rsp; lodsq": "4889e6 48ad c3",
    "mov rax, rsp; movups xmm0, [rax-8]": "4889e0 0f1040f8 c3",
    "mov eax, [rsp+4]": "8b442404 c3",
    "mov rdi, rsp; jmp elsewhere": "4889e7 e900100000",
    "mov rax, rsp; mov [rip+16], rax": "4889e0 48890510000000 c3",
    "mov rax, rsp; and rax, -8; mov rax, [rax]": "4889e0 4883e0f8 488b00 c3",
    # The return address is copied to an aligned stack, and read there.
    "gcc's realigned stack": "4c8d542408 4883e4f0 41ff72f8 55 4889e5 488b4508 5d 498d62f8 c3",
    "constants after it": "53 488b442408 5b c3 000000000000f03f",
    "the bytes of the next function, cut": "53 488b442408 5b c3 48",
    "after data in its midst": "eb01 48 488b0424 c3",
    "where it jumps back to": "eb05 488b0424 c3 53 5b ebf7",
    "after shifted number": "b901000000 48c1e103 53 488b040c 5b c3",
    "after counted number": "31c9 4883c108 53 488b040c 5b c3",
    "by a stack pointer that a number moves": "b908000000 4829cc 488b442408 4801cc c3",
    "without a frame": "4c8d542408 4883e4f0 41ff72f8 58 498d62f8 c3",
}
READS_NOT = {
    "gcc realigns a stack": "4c8d542408 4883e4f0 41ff72f8 55 4889e5 4152 415a 5d 498d62f8 c3",
    "OpenSSL saves rsp": "4889e0 53 4883ec40 4883e4c0 4889442438 488b742438 488b5ef8 488d26 c3",
    "mov rax, [rsp+8], an argument on the stack": "488b442408 c3",
    "mov rax, rsp; mov rax, [rax+8]": "4889e0 488b4008 c3",
    "mov rax, rsp; xor eax, eax; mov rax, [rax]": "4889e0 31c0 488b00 c3",
    "sub rsp, 24; mov rdi, rsp; call f; add rsp, 24": "4883ec18 4889e7 e800100000 4883c418 c3",
    "movaps [rsp-16], xmm0": "0f294424f0 c3",
    "enter 16, 0; mov rax, [rbp-8]": "c8100000 488b45f8 c9 c3",
    "ret 16": "c21000",
    "data after it": "53 488b442410 5b c3 000000000000f03f",
}


@pytest.mark.parametrize("what", READS)
def test_who_reads_its_return_address_by_a_copy_of_the_stack_pointer(what: str):
    assert found(READS[what])[0]


@pytest.mark.parametrize("what", READS_NOT)
def test_who_does_not(what: str):
    assert found(READS_NOT[what])[:2] == (False, False)


def test_the_saved_frame_pointer_is_reached_by_copies_as_well():
    assert found("55 4889e5 4889e0 488b00 5d c3")[1]  # mov rax, rsp; mov rax, [rax]
    assert found("55 58 488b4008 c3")[1]  # push rbp; pop rax; mov rax, [rax+8]
    assert found("4887e8 c3")[1]  # xchg rax, rbp
    assert not found("55 4889e5 53 488b1c24 5b 5d c3")[1]
    assert not found("55 4889e5 4883ec10 488b6c2410 4883c418 c3")[1]  # mov rbp, [rsp+16]


def test_who_returns_to_what_it_pushed_may_go_anywhere():
    assert "pushed" in found("57 c3")[2]  # push rdi; ret
    assert not found("53 5b c3")[2]


def unread(text: str) -> bool:
    raw = bytes.fromhex(text)
    return reach(Code(raw, BASE, 0, BASE + len(raw)), 0).unread


def test_what_may_run_and_is_not_known():
    assert unread("ffe0 61626300")  # jmp rax; data, or what it leads to
    assert unread("7401 48 06 c3")  # the processor knows no 06
    assert unread("53 488b")  # cut
    # lea r10, [2f]; jmp r10; a constant that swallows what follows; 2:
    assert unread("4c8d1505000000 41ffe2 48b8 53 488b442408 5b c3")
    assert unread("7403 48c780 488d442408 488b40f8 c3")  # read in two ways, one within the other


def test_data_that_nothing_leads_to():
    assert not unread("c3 61626300")
    assert not unread("c3 000000")
    assert not unread("eb04 61626300 c3")
    assert not unread("ff2500100000 61626300")  # jmp [rip+4096], a stub
    assert not unread("ffe0 cccccc 90")
    assert not unread("ffe0 31c0 c3")  # all of it is instructions
