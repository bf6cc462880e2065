"""AAPCS64 for integers and pointers."""

from __future__ import annotations

from lbtrace import arch
from lbtrace.arch import Code
from lbtrace.model import LONG, Formal, Opaque, Prototype, Scalar, Void

INT = Formal("i", LONG, 8, (Scalar(0, 8, "integer"),))
DOUBLE = Formal("d", Opaque("double"), 8, (Scalar(0, 8, "float"),))
ARM = arch.of("aarch64")


def test_integers_take_x0_to_x7():
    made = ARM.passing(Prototype((INT,) * 10, INT), 10)
    assert [f.register for f in made.fetches] == [f"x{n}" for n in range(8)]
    assert [v.slot for v in made.parameters[8:]] == [-1, -1]
    assert made.result_fetches[0].register == "x0"
    assert all("unknown" in v.reason for v in made.parameters[8:])


def test_floats_take_registers_of_their_own():
    made = ARM.passing(Prototype((INT, DOUBLE, INT), Formal("", Void(), 0)), 6)
    assert [v.reason for v in made.parameters] == ["", "float in v0", ""]
    assert [f.register for f in made.fetches] == ["x0", "x1"]
    assert made.result is None


def test_behind_another_kind_nothing_is_read():
    pair = Formal("p", Opaque("pair"), 16, (Scalar(0, 8, "integer"), Scalar(8, 8, "integer")))
    made = ARM.passing(Prototype((INT, pair, INT), INT), 6)
    assert [v.slot for v in made.parameters] == [0, -1, -1]


def test_probes_stand_on_the_first_instruction():
    site = ARM.planner().choose(
        Code(bytes.fromhex("3f2303d5fd7bbfa9"), 0x1000, 0x40, 0x1008), (), returns=True
    )
    assert site is not None
    assert (site.address, site.offset, site.emulated) == (0x1000, 0x40, False)
    assert site.displaced == "d503233f"
