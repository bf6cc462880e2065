"""Code that reads return addresses by its caller's frame pointer, assembled by hand."""

from __future__ import annotations

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
    assert [*walkers(code, BASE)] == [BASE + code.index(part) for part in expected]


def test_walkers_are_found_in_arm64_code():
    code = bytes.fromhex("fd7bbfa9 fd030091 a00340f9 000440f9 fd7bc1a8 c0035fd6")
    assert [*arm64_walkers(code, BASE)] == [BASE + 8]  # ldr x0, [x29]
