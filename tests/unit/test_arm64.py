"""AAPCS64 by its own rules, cited by their names there; and places of probes."""

from __future__ import annotations

import pytest

from lbtrace.abi import aapcs64
from lbtrace.abi.locations import Location
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.model import LONG, Fetch, Formal, Opaque, Prototype, Scalar, Site, Void

INT = Formal("i", LONG, 8, (Scalar(0, 8, "integer"),))
DOUBLE = Formal("d", Opaque("double"), 8, (Scalar(0, 8, "float"),))
ARM = Machine("aarch64")


CHAR = Formal("c", LONG, 1, (Scalar(0, 1, "integer"),))
PAIR = Formal("p", Opaque("pair"), 16, (Scalar(0, 8, "integer"), Scalar(8, 8, "integer")))
WIDE = Formal("w", Opaque("__int128"), 16, (Scalar(0, 16, "integer"),))
BIG = Formal("b", Opaque("big"), 24, tuple(Scalar(n, 8, "integer") for n in (0, 8, 16)))
FLOATS = Formal("f", Opaque("floats"), 12, tuple(Scalar(n, 4, "float") for n in (0, 4, 8)))


def lying(*formals: Formal) -> list[str]:
    """Where each parameter lies, in short."""
    return [short(place) for place in aapcs64.places(Prototype(formals)).parameters]


def short(place: Location) -> str:
    def name(fetch: Fetch) -> str:
        start = fetch.register or f"sp+{fetch.offset}"
        start += " at entry" * (fetch.base == "kept")
        return start + "".join("->" for _ in fetch.derefs)

    if place.memory is not None:
        return f"[{name(place.memory)}]"
    words = [word if isinstance(word, str) else name(word) for word in place.words]
    return " ".join(words) or place.reason


def test_integers_take_x0_to_x7_and_then_the_stack():
    assert lying(*[INT] * 10) == [*(f"x{n}" for n in range(8)), "[sp+0]", "[sp+8]"]
    assert lying(*[INT] * 8, CHAR, INT)[8:] == ["[sp+0]", "[sp+8]"]  # C.16


def test_floats_take_registers_of_their_own():
    assert lying(INT, DOUBLE, INT) == ["x0", "float in v0", "x1"]
    assert lying(*[DOUBLE] * 9, INT)[7:] == ["float in v7", "[sp+0]", "x0"]


def test_composites():
    assert lying(INT, PAIR, INT) == ["x0", "x1 x2", "x3"]  # C.12
    assert lying(INT, WIDE, INT) == ["x0", "x2 x3", "x4"]  # C.10
    assert lying(*[INT] * 7, PAIR, INT)[7:] == ["[sp+0]", "[sp+16]"]  # C.13: x7 stays free
    assert lying(*[INT] * 7, CHAR, CHAR, WIDE)[7:] == ["x7", "[sp+0]", "[sp+16]"]  # C.14
    assert lying(BIG, INT) == ["[x0]", "x1"]  # B.4
    assert lying(*[INT] * 8, BIG)[8:] == ["[sp+0->]"]


def test_composites_of_floats():
    assert lying(FLOATS, DOUBLE) == ["float in v0 float in v2", "float in v3"]  # C.2
    assert lying(*[DOUBLE] * 6, FLOATS, DOUBLE)[6:] == ["[sp+0]", "[sp+16]"]  # C.3


def test_what_is_unknown_makes_the_rest_unknown():
    puzzle = Formal("what", Opaque("what"), 8, None)
    assert lying(INT, puzzle, INT) == [
        "x0", "how it is passed is unknown", "how it is passed is unknown after what"
    ]  # fmt: skip


def test_results():
    def of(formal: Formal) -> str:
        return short(aapcs64.places(Prototype((), formal)).result)

    assert of(INT) == "x0"
    assert of(PAIR) == "x0 x1"
    assert of(DOUBLE) == "float in v0"
    assert of(BIG) == "[x8 at entry]"
    assert of(Formal("s", Opaque("string"), 32, None, reference=True)) == "[x8 at entry]"
    assert of(FLOATS) == "float in v0 float in v2"
    assert of(Formal("", Void(), 0)) == ""


def choose(code: str, keep: tuple[str, ...] = (), *, returns: bool = True) -> Site | None:
    data = bytes.fromhex(code)
    return ARM.site_planner().choose(
        Code(data, 0x1000, 0x40, 0x1000 + len(data)), keep, returns=returns
    )


PACIASP, SUB_SP, CMP, B_EQ = "3f2303d5", "ff8300d1", "1f0400f1", "40000054"
MOV_X0, RETAA, STP, RET = "000080d2", "ff0b5fd6", "fd7bbfa9", "c0035fd6"


@pytest.mark.parametrize(
    ("code", "keep", "returns", "place", "sunk"),
    [
        (STP + CMP + B_EQ + RET, ("x0",), True, 0, 0),
        (CMP + B_EQ + RET + RET, ("x0",), True, 4, 0),
        (PACIASP + CMP + B_EQ + RET, ("x0",), True, 0, 0),
        (PACIASP + CMP + B_EQ + RET, ("x0",), False, 8, 0),
        (SUB_SP + CMP + B_EQ + RET + RET, (), False, 8, 32),
        (SUB_SP + CMP + B_EQ + RET + RET, (), True, 0, 0),
        (MOV_X0 + RET, ("x0",), True, 0, 0),
        (MOV_X0 + RET, ("x1",), True, 4, 0),
    ],
)
def test_places(code, keep, returns, place, sunk):
    """Simulated ones, but where registers, the stack or the return address allow it."""
    site = choose(code, keep, returns=returns)
    assert site is not None
    assert (site.address - 0x1000, site.offset - 0x40, site.sp_delta) == (place, place, sunk)
    word = code[8 * place // 4 :][:8]
    assert site.displaced == bytes.fromhex(word)[::-1].hex()
    assert site.emulated == (word in (B_EQ, RET))


def test_no_place_where_the_kernel_refuses():
    assert choose(RETAA) is None
    assert choose("bf2303d5") is None  # autiasp
    assert choose("010000d4") is None  # svc
    assert choose("007c5fc8") is None  # ldxr
