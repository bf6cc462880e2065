"""Which compiler made a unit, as far as its version says how values are passed."""

from __future__ import annotations

import re

CLANG = re.compile(r"clang version (\d+)\.")
RUSTC = re.compile(r"rustc version 1\.(\d+)\.")

BUNDLED = ((87, 20), (78, 18), (70, 16))
"""Minor versions of rustc from which on it comes with these of LLVM."""

OLDER = 15

NEWEST = 1 << 16
"""Stands for versions that nobody tells."""


def rustc(producer: str) -> int:
    """The minor version of the rustc that ``DW_AT_producer`` names."""
    found = RUSTC.search(producer)
    return int(found[1]) if found else NEWEST


def llvm(producer: str) -> int:
    """The version of LLVM in what ``DW_AT_producer`` names."""
    if found := CLANG.search(producer):
        return int(found[1])
    minor = rustc(producer)
    return next((own for since, own in BUNDLED if minor >= since), OLDER)
