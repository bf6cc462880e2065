"""Where vector registers of the entry are found again, on hand-assembled code."""

from __future__ import annotations

from struct import pack

from lbtrace.machine.code import Code, FloatSpills
from lbtrace.machine.x86_64.probe_sites import Planner
from lbtrace.model import CFA, Fetch

BASE = 0x401000
TABLE = 0x402000

PUSH_MOVE = "55 4889e5"  # push rbp; mov rbp, rsp
LEAVE = "c9 c3"


def places(code: str, data: bytes = b"") -> list[FloatSpills]:
    """The places in hexadecimal ``code``; ``data`` is at `TABLE`."""
    raw = bytes.fromhex(code)

    def read(address: int, size: int) -> bytes:
        return data[address - TABLE :][:size] if address >= TABLE else b""

    return list(Planner().spills(Code(raw, BASE, 0x1000, BASE + len(raw)), read))


def offsets(code: str, data: bytes = b"") -> list[int]:
    return [stored.site.address - BASE for stored in places(code, data)]


def slot(offset: int, size: int = 8) -> tuple[Fetch, int]:
    return Fetch(base="stack", offset=offset, read="integer", size=size), size


def test_a_spill_is_found_after_it():
    found = places(PUSH_MOVE + "f20f1145f8 90" + LEAVE)  # movsd [rbp-8], xmm0; nop
    assert [stored.site.address - BASE for stored in found] == [9, 10]
    first = found[0]
    assert first.site.emulated
    assert first.site.sp_delta == 8
    assert first.words["float in xmm0"] == slot(-16)
    assert first.words["di"] == (Fetch(register="di"), 8)
    assert first.slots == {-8: "bp", -16: "float in xmm0"}
    assert first.bases == {6: -8, 7: -8, CFA: 8}


def test_four_bytes_are_no_eight():
    stored = places(PUSH_MOVE + "f30f1145fc 90" + LEAVE)[0]  # movss [rbp-4], xmm0
    assert stored.words["float in xmm0"] == slot(-12, 4)


def test_copies_are_followed():
    # movaps xmm3, xmm1; movq rax, xmm3; mov rcx, rax; mov [rsp-8], rcx
    stored = places("0f28d9 66480f7ed8 4889c1 48894c24f8 90 c3")[-1]
    assert stored.words["float in xmm1"][0] in (Fetch(register="ax"), slot(-8)[0])
    assert stored.slots == {-8: "float in xmm1"}
    assert stored.words["cx"][1] == 0 if "cx" in stored.words else True


def test_what_is_overwritten_is_gone():
    spill = PUSH_MOVE + "f20f1145f8"
    assert places(spill + "90" + LEAVE)[0].slots
    behind = places(spill + "c645fb00 90" + LEAVE)  # mov byte [rbp-5], 0
    assert [stored.site.address - BASE for stored in behind] == [9]
    # xorps xmm0, xmm0 before the spill
    assert not places(PUSH_MOVE + "0f57c0 f20f1145f8 90" + LEAVE)


def test_integer_registers_that_are_overwritten():
    # mov [rbp-4], edi; xor edi, edi; movsd [rbp-16], xmm0
    stored = places(PUSH_MOVE + "897dfc 31ff f20f1145f0 90" + LEAVE)[0]
    assert stored.words["di"] == slot(-12, 4)
    assert set(range(-12, -8)) <= stored.once
    # and once more: mov [rbp-4], eax
    stored = places(PUSH_MOVE + "897dfc 31ff f20f1145f0 8945fc 90" + LEAVE)[-1]
    assert "di" not in stored.words
    assert not set(range(-12, -8)) & stored.once


def test_nothing_after_what_others_might_see():
    spill = PUSH_MOVE + "f20f1145f8"
    assert offsets(spill + "48c70700000000 90" + LEAVE) == [9]  # mov qword [rdi], 0
    assert offsets(spill + "e800000000 90" + LEAVE) == [9]  # the call itself is a place
    assert offsets(spill + "ffd0 90" + LEAVE) == []  # call rax, which is none
    assert offsets(spill + "c3") == []  # where the function is left
    assert offsets(spill + "e9ffff0000") == []  # a tail call
    assert offsets(spill + "4883e4e0 90" + LEAVE) == [9]  # and rsp, -32


def test_no_place_to_which_a_jump_leads():
    spill = PUSH_MOVE + "f20f1145f8"
    assert offsets(spill + "90 90 75fc" + LEAVE) == []  # to the first nop: before both
    assert offsets(spill + "90 90 75fd" + LEAVE) == [9]  # to the second
    assert offsets(spill + "eb01 90 90 75fc" + LEAVE) == [9]  # a jump within is a place


def test_vector_instructions_are_followed_and_never_probed():
    spill = PUSH_MOVE + "c5fb1145f8"  # vmovsd [rbp-8], xmm0
    assert offsets(spill + "c5fb1045f8 90" + LEAVE) == [14, 15]


def switch(spill: str = PUSH_MOVE + "f20f1145f8", before: str = "") -> str:
    """lea rdx, [TABLE]; movsxd rax, [rdx+rdi*4]; add rax, rdx; jmp rax"""
    at = len(bytes.fromhex(spill))
    distance = TABLE - (BASE + at + 7)
    return (
        spill + "488d15" + pack("<i", distance).hex() + "486304ba 4801d0" + before + "ffe0 90 c9 c3"
    )


def test_tables_are_looked_at():
    apart = pack("<3i", *(BASE + 25 - TABLE,) * 3)
    assert offsets(switch(), apart)[0] == 9
    back = pack("<3i", BASE + 25 - TABLE, BASE + 9 - TABLE, BASE + 25 - TABLE)
    assert offsets(switch(), back) == []
    assert offsets(switch()) == []  # nothing there
    assert offsets(switch(before="4889c8"), apart) == []  # mov rax, rcx: from elsewhere


def results(code: str, *returns: int) -> dict[str, tuple[Fetch, int]]:
    raw = bytes.fromhex(code)
    where = Code(raw, BASE, 0x1000, BASE + len(raw))
    addresses = {BASE + at for at in returns or (len(raw) - 1,)}
    return Planner().results(where, addresses, lambda address, size: b"")


AX = Fetch(register="ax")


def test_results_that_are_in_a_register_too():
    assert results("66480f6ec0 5d c3") == {"float in xmm0": (AX, 8)}  # movq xmm0, rax; pop rbp
    assert results("660f6ec0 c9 c3") == {"float in xmm0": (AX, 4)}  # movd xmm0, eax
    # movq xmm2, rdx; movq xmm0, rax; movapd xmm1, xmm2
    both = results("66480f6ed2 66480f6ec0 660f28ca c9 c3")
    assert both == {"float in xmm0": (AX, 8), "float in xmm1": (Fetch(register="dx"), 8)}


def test_results_that_are_not():
    assert not results("66480f6ec0 31c0 c3")  # xor eax, eax behind
    assert not results("66480f6ec0 f20f58c1 c3")  # addsd xmm0, xmm1 behind
    assert not results("66480f6ec0 e800000000 c3")  # a call behind
    assert not results("7505 66480f6ec0 c3")  # a jump leads between
    assert not results("66480f6ec0 c3 c3", 5, 6)  # another return without
    assert results("66480f6ec0 c3 66480f6ec0 c3", 5, 11)
    assert not results("66480f6ec0 7430 c3")  # what is elsewhere might lead back
