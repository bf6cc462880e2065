"""Locations of values whose parts LLVM describes separately."""

from __future__ import annotations

import pytest

from lbtrace.dwarf.reader.pieces import read_pieces
from lbtrace.model import Piece

WIDE = "75 00 a8 27 a8 2b 9f 93 04 75 00 10 20 25 a8 27 a8 2b 9f 93 04"
"""Two halves of rdi: DW_OP_breg5 0, two DW_OP_convert, DW_OP_stack_value, DW_OP_piece 4; the
same after DW_OP_constu 32, DW_OP_shr. From clang 14 -O2."""


@pytest.mark.parametrize(
    ("expression", "pieces"),
    [
        ("55", [Piece(5, 0, 0)]),
        ("75 00 a8 27 9f", [Piece(5, 0, 0)]),
        ("61 93 08", [Piece(17, 0, 8)]),
        ("93 08 55 93 08", [Piece(5, 8, 16)]),
        ("55 93 08 93 08", [Piece(5, 0, 8)]),
        ("90 40 93 04 90 c1 00 93 04", [Piece(64, 0, 4), Piece(65, 4, 8)]),
        (WIDE, [Piece(5, 0, 4), Piece(5, 4, 8, 4)]),
        ("", []),
        ("91 10", []),  # in memory
        ("77 08", []),  # in the caller's frame
        ("75 00", []),  # where rdi leads to
        ("75 00 31 22 9f", []),  # one more than rdi
        ("75 00 33 25 9f 93 04", []),  # bits of it
        ("55 93 08 31 9f 93 08", []),  # the compiler knows the second half
        ("55 93", []),
        ("75 80", []),
    ],
)
def test_registers_of_pieces(expression: str, pieces: list[Piece]) -> None:
    assert list(read_pieces(bytes.fromhex(expression))) == pieces
