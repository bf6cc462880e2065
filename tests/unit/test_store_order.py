"""Stores of parameters in the order of the source, and those of optimised code."""

from __future__ import annotations

import pytest

from lbtrace.machine.code import CALLER_STACK, CONSTANT
from lbtrace.model import ConventionHints, Formal, Scalar
from lbtrace.plan.register_order import Source, rank_registers
from lbtrace.plan.store_order import is_in_order, takes_all
from lbtrace.values.integer import Integer
from lbtrace.values.record import Record

RANKS = rank_registers("x86_64", ConventionHints(0, "c", "llvm"))

NUMBER = Formal("n", Integer("long", 8, signed=True), 8, (Scalar(0, 8, "integer"),))
RECORD = Formal("s", Record("struct S", 8), 8, (Scalar(0, 8, "integer"),))


@pytest.mark.parametrize(
    ("formals", "stored", "expected"),
    [
        ((NUMBER, NUMBER), (0, 1), True),
        ((NUMBER, NUMBER), (1, 0), False),
        ((NUMBER, RECORD, NUMBER), (1, 0, 2), True),
        ((NUMBER, NUMBER, NUMBER), (3, -1, 4), True),
    ],
)
def test_numbers_are_stored_in_their_order(
    formals: tuple[Formal, ...], stored: tuple[int, ...], expected: bool
) -> None:
    assert is_in_order(formals, stored) is expected


CONST, UNKNOWN = (CONSTANT, 0), ("", 0)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([("di", 0), ("si", 0), ("dx", 0)], True),
        ([CONST, ("di", 0), ("si", 0)], True),
        ([CONST, ("di", 0), ("dx", 0)], False),
        ([("si", 0), ("di", 0)], False),
        ([UNKNOWN, ("si", 0)], True),
        ([UNKNOWN, ("dx", 0)], False),
        ([("di", 0), ("di", 4), ("si", 0)], True),
        ([("xmm0", 0), ("di", 0), ("xmm1", 0)], True),
        ([("xmm1", 0), ("di", 0)], False),
        ([(CALLER_STACK, 8), (CALLER_STACK, 16)], True),
        ([(CALLER_STACK, 16), (CALLER_STACK, 8)], False),
    ],
)
def test_what_is_passed_takes_registers_without_gaps(sources: list[Source], expected: bool) -> None:
    assert takes_all([{0: each} for each in sources], RANKS, hidden=False) is expected


def test_the_pointer_to_a_result_may_come_first() -> None:
    found: list[dict[int, Source]] = [{0: ("si", 0)}]
    assert takes_all(found, RANKS, hidden=True)
    assert not takes_all(found, RANKS, hidden=False)
