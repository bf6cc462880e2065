"""The calling convention: section 3.2.3 of the System V ABI for AMD64, example by example."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.sysv_x86_64 import classify
from lbtrace.fetch.call_values import CallValues, plan_values
from lbtrace.model import LONG, Formal, Opaque, Prototype, Scalar, Void

INT = Formal("i", LONG, 8, (Scalar(0, 8, "integer"),))
DOUBLE = Formal("d", Opaque("double"), 8, (Scalar(0, 8, "float"),))
X87 = Formal("l", Opaque("long double"), 16, (Scalar(0, 16, "x87"),))
WIDE = Formal("w", Opaque("__int128"), 16, (Scalar(0, 16, "integer"),))
MISCOUNTED = replace(WIDE, registers_miscounted=True)
MIXED = Formal("m", Opaque("mixed"), 16, (Scalar(0, 8, "float"), Scalar(8, 8, "integer")))
PAIR = Formal("p", Opaque("pair"), 16, (Scalar(0, 8, "integer"), Scalar(8, 8, "integer")))
BIG = Formal("b", Opaque("big"), 24, tuple(Scalar(n, 8, "integer") for n in (0, 8, 16)))
ODD = Formal("o", Opaque("odd"), 8, None)
NOTHING = Formal("", Void(), 0)


def passing(prototype: Prototype, limit: int) -> CallValues:
    """How the values of ``prototype`` are fetched by the convention of C."""
    return plan_values(prototype, locate_values("x86_64", prototype), limit)


def places(*formals, result=None, limit=12):
    made = passing(Prototype(formals, result), limit)
    return [
        made.fetches[v.slot].register or made.fetches[v.slot].offset
        for v in made.parameters
        if v.slot >= 0
    ]


def test_integers_take_six_registers_then_the_stack():
    assert places(*[INT] * 8) == ["di", "si", "dx", "cx", "r8", "r9", 8, 16]


def test_floats_take_no_integer_register():
    assert places(DOUBLE, INT, DOUBLE, INT) == ["di", "si"]
    assert places(*[DOUBLE] * 9, *[INT] * 7) == ["di", "si", "dx", "cx", "r8", "r9", 16]


def test_long_doubles_lie_on_the_stack_aligned():
    assert places(*[INT] * 7, X87, INT) == ["di", "si", "dx", "cx", "r8", "r9", 8, 40]


def test_what_does_not_fit_whole_goes_to_the_stack_and_leaves_the_register():
    assert places(*[INT] * 5, PAIR, INT, INT) == ["di", "si", "dx", "cx", "r8", "r9", 24]
    assert places(*[INT] * 5, WIDE, INT, INT) == ["di", "si", "dx", "cx", "r8", "r9", 24]


def test_nothing_is_read_after_an_int128_that_old_clang_may_have_split():
    assert places(MISCOUNTED, INT) == ["dx"]
    assert places(*[INT] * 5, MISCOUNTED, INT) == ["di", "si", "dx", "cx", "r8"]


def test_nothing_is_read_after_a_struct_for_which_clang_counts_a_null_as_no_register():
    null = replace(INT, registers_miscounted=True)
    assert places(null, *[INT] * 5, INT) == ["di", "si", "dx", "cx", "r8", "r9", 8]
    assert places(null, *[INT] * 4, PAIR, INT) == ["di", "si", "dx", "cx", "r8"]


def test_large_structs_take_no_register():
    assert places(BIG, INT) == ["di"]
    assert places(INT, BIG, *[INT] * 6)[-1] == 32


def test_a_result_in_memory_takes_the_first_register():
    assert places(INT, result=BIG) == ["si"]
    assert places(INT, result=PAIR) == ["di"]
    assert places(INT, result=X87) == ["di"]
    assert places(INT, result=NOTHING) == ["di"]
    assert places(INT, result=ODD) == []


def test_after_the_unknown_nothing_is_read():
    made = passing(Prototype((INT, ODD, INT), NOTHING), 6)
    assert [v.slot for v in made.parameters] == [0, -1, -1]
    assert all(v.reason for v in made.parameters[1:])
    assert made.result is None


def test_a_recorded_register_is_believed():
    known = Formal("k", LONG, 8, (Scalar(0, 8, "integer"),), register=4)
    assert places(ODD, known) == ["si"]
    gone = Formal("g", LONG, 8, (Scalar(0, 8, "integer"),), missing_reason="optimised out")
    made = passing(Prototype((gone, known), NOTHING), 6)
    assert [v.reason for v in made.parameters] == ["optimised out", ""]


def test_a_reference_takes_one_register():
    passed = Formal("r", Opaque("string"), 32, None, reference=True)
    assert places(passed, INT) == ["si"]
    assert places(INT, result=passed) == ["si"]


def test_values_beyond_the_limit_are_counted():
    made = passing(Prototype((INT,) * 8, INT), 6)
    assert len(made.fetches) == 6
    assert made.cut == 2
    assert [v.slot for v in made.parameters] == [0, 1, 2, 3, 4, 5, -1, -1]


def test_classes():
    integer, real = "integer", "float"
    assert classify(8, (Scalar(0, 4, integer), Scalar(4, 4, real))) == [integer]
    assert classify(8, (Scalar(0, 4, real), Scalar(4, 4, real))) == [real]
    assert classify(16, (Scalar(0, 8, real), Scalar(8, 8, integer))) == [real, integer]
    assert classify(5, (Scalar(0, 1, integer), Scalar(1, 4, integer))) == ["memory"]  # packed
    assert classify(1, ()) == []
    assert classify(16, (Scalar(0, 8, integer),)) is None  # half of it unexplained
    assert classify(4, (Scalar(0, 8, integer),)) is None
