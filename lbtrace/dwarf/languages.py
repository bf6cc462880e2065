"""Languages of compilation units, as ``DW_AT_language`` numbers them.

Sources: DWARF 5, section 7.12; the codes that were given since then for DWARF 6
(https://dwarfstd.org/languages.html).
"""

from __future__ import annotations

from typing import Any

ASSEMBLERS = frozenset({0x8001, 0x31})
"""DW_LANG_Mips_Assembler, and DW_LANG_Assembly of DWARF 6."""

C = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E, 0x10})
"""Those whose functions have the convention of C: C89, C, C99, C11, C17, C23, and Objective-C,
which adds to the values of C pointers alone and calls methods as functions of C."""

CPP = frozenset({0x04, 0x19, 0x1A, 0x21, 0x2A, 0x2B, 0x3A, 0x11})
"""Those that pass values as C++ does: C++, of 2003, 11, 14, 17, 20, 23, and Objective-C++."""

RUST = 0x1C
GO = 0x16


FORTRAN = frozenset({0x07, 0x08, 0x0E, 0x22, 0x23, 0x2D})


def language_of(top: Any) -> int:
    """Return the ``DW_AT_language`` of a unit, 0 where it has none."""
    attribute = top.attributes.get("DW_AT_language")
    return 0 if attribute is None else int(attribute.value)
