"""Rules for sites, on hand-assembled code."""

from __future__ import annotations

import pytest

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.probe_sites import AVOIDED, NOP, Planner

BASE = 0x401000


def place(code: str, *, keep=("di",), returns=True, limit: int | None = None):
    """The offset chosen in hexadecimal ``code``, or None."""
    raw = bytes.fromhex(code)
    end = BASE + len(raw) if limit is None else BASE + limit
    site = Planner().choose(Code(raw, BASE, 0x1000, end), keep, returns=returns)
    if site is None:
        return None
    assert site.offset == site.address - BASE + 0x1000
    return site.address - BASE, site.emulated


ENDBR = "f30f1efa"


def test_memory_must_be_untouched():
    assert place("48897c2408 55 c3") == (0, False)  # mov [rsp+8], rdi
    assert place("488b442408 55 c3") == (5, True)  # mov rax, [rsp+8]


def test_nothing_is_passed_that_moves_the_stack_pointer_by_what_is_not_known():
    numbers = ("482b2500100000", "482b2425 00100000", "4829cc", "4883ec80")
    for number in numbers:  # sub rsp, memory; sub rsp, rcx; sub rsp, -128
        raw = bytes.fromhex(f"{number} 55 c3")
        site = Planner().choose(Code(raw, BASE, 0, BASE + len(raw)), (), returns=False)
        assert site is not None, number
        assert (site.address - BASE, site.sp_delta) == (0, 0)


def test_only_code_that_falls_through_is_passed():
    assert place("e800000000 55 c3") == (0, True)  # a call is a place of its own
    assert place("ffd0 55 c3") == (0, False)  # call rax
    assert place("c3 55") == (0, False)
    assert place("0f05 55 c3") is None  # syscall


def test_no_probe_stands_where_a_copy_does_something_else():
    for code in ("9c 58 c3", "669c 6658 c3", "489c 58 c3", "0f05 c3", "0f34 c3", "c7f800000000 c3"):
        assert place(code) is None, code  # pushf, syscall, sysenter, xbegin


def test_jumps_that_cannot_be_followed_allow_a_push_only():
    assert place(ENDBR + "53 5b ffe0") == (4, True)  # jmp rax
    assert place(ENDBR + "85ff 7402 ffe0 c3") == (0, False)  # je
    assert place(ENDBR + "85ff 7404 7f30 c3 90 c3") == (0, False)  # jg out of the function
    assert place(ENDBR + "85ff 7402 31c0 c3") == (6, True)


def test_a_refused_entry_is_passed_over():
    assert place("f0ff0f 55 c3") is None  # lock dec [rdi] writes memory
    assert place("2e8b07 55 c3") == (3, True)  # a CS prefix
    assert place("c5f877 55 c3") == (3, True)  # vzeroupper


@pytest.mark.parametrize("nop", ["0f1f440000", "0f1f440008", "662e0f1f840000000000"])
def test_a_nop_that_kernels_replace_by_a_call_is_passed_over(nop):
    after = len(nop) // 2
    assert place(f"{nop} 55 c3") == (after, True)
    assert place(f"{ENDBR} {nop} 55 c3") == (4 + after, True)
    assert place(f"{nop} 31c0 c3") == (after, False)
    assert place(f"31c0 {nop} c3") == (0, False)
    assert place(f"{nop} 31c0 ebfc") is None  # a loop back to what follows
    raw = bytes.fromhex(f"{nop} c3")
    assert Planner().point(Code(raw, BASE, 0, BASE + len(raw))) == NOP


def test_after_an_avoided_nop_tail_calls_do_not_matter():
    raw = bytes.fromhex("0f1f440000 4883ec18 4883c418 e900010000")
    code = Code(raw, BASE, 0x1000, BASE + len(raw))
    target = BASE + len(raw) + 0x100
    planner = Planner()
    assert planner.choose(code, (), returns=False) is None
    site = planner.choose(code, (), returns=False, never_back=lambda to: to == target)
    assert site is not None
    assert (site.address, site.reason) == (BASE + 5, AVOIDED)


def test_no_probe_stands_on_a_repeated_instruction():
    assert place("f3aa c3") is None  # rep stosb: a hit for each byte
    assert place("f348a5 55 c3") is None  # rep movsq writes memory
    assert place("f2ae 55 c3", keep=()) == (2, True)  # repne scasb
    assert place("aa c3") == (0, False)
    assert place("f30f6f07 c3") == (0, False)  # movdqu
