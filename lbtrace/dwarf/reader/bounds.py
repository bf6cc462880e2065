"""Bounds the work on debug information, which may be damaged or hostile."""

from __future__ import annotations

from lbtrace.elf.debug_sections import DwarfError

LEAST, MOST = 1_000_000, 20_000_000
"""Work that goes into what was not asked for, such as types: for a small file, and at most."""


class BudgetExceeded(DwarfError):
    """Debug information takes more work than the budget allows."""


class Budget:
    """Units of work, each about a microsecond; spending more raises `BudgetExceeded`."""

    def __init__(self, units: int) -> None:
        self.left = units

    def spend(self, units: int = 1) -> None:
        """Take ``units`` from the budget."""
        self.left -= units
        if self.left < 0:
            raise BudgetExceeded


def for_size(size: int) -> Budget:
    """Return the budget for debug information of so many bytes."""
    return Budget(min(LEAST + size // 16, MOST))
