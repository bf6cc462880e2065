"""Locations of variables that debug information gives wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from lbtrace.dwarf.variable_locations import TOO_COMPLEX, Place, locate
from lbtrace.model import Scalar

RBP = b"\x56"


def located(expression: str, size: int, frame_base: bytes = b"") -> Any:
    unit: Any = None  # of which these expressions need nothing
    place = Place(unit, "x86_64", 0x1000, frame_base, lambda: pytest.fail("there is no CFA"))
    return locate(bytes.fromhex(expression), place, (Scalar(0, size, "integer"),))


@pytest.mark.parametrize(
    ("expression", "frame_base"),
    [
        ("77 10 9f", b""),  # DW_OP_breg7 (rsp) 16, DW_OP_stack_value; clang 14 -O1 -gsplit-dwarf
        ("77 10 a8 27 a8 2b 9f", b""),  # with DW_OP_convert, as the same compiler says without it
        ("76 68 9f", RBP),  # rbp as the base of the frame
        ("91 08 9f", RBP),
        ("77 10 9f 93 01", b""),
    ],
)
def test_a_load_that_clang_leaves_out(expression: str, frame_base: bytes) -> None:
    assert located(expression, 1, frame_base).reason == TOO_COMPLEX or (
        located(expression, 1, frame_base).words == (TOO_COMPLEX,)
    )


@pytest.mark.parametrize(
    ("expression", "size", "register"),
    [
        ("77 10 9f", 8, "sp"),  # the address of what lies in the frame
        ("70 01 9f", 1, "ax"),  # one more than a register
        ("76 68 9f", 1, "bp"),  # rbp is a register as others are
    ],
)
def test_values_in_registers(expression: str, size: int, register: str) -> None:
    (word,) = located(expression, size).words
    assert (word.register, word.derefs) == (register, ())
