"""What bounds the work on debug information, which may be damaged or hostile."""

from __future__ import annotations


class DwarfError(Exception):
    """Debug information that is damaged or of a kind that is not read.

    It never leaves `lbtrace.elf`: what it concerns counts as missing.
    """


class Exhausted(DwarfError):
    """More work than debug information is worth."""


class Budget:
    """Units of work, each about a microsecond; spending more raises `Exhausted`."""

    def __init__(self, units: int) -> None:
        self.left = units

    def spend(self, units: int = 1) -> None:
        """Takes ``units`` from what is left."""
        self.left -= units
        if self.left < 0:
            raise Exhausted
