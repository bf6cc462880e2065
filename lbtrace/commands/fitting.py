"""Lines that are cut where a terminal ends."""

from __future__ import annotations

import os
import re
from typing import IO
from unicodedata import category, east_asian_width

_COLOR = re.compile("(\x1b\\[[0-9;]*m)")
_RESET = "\x1b[0m"


class FittedLines:
    """A stream to a terminal that cuts lines at its width, whatever that is by then.

    Whole lines are written to it.
    """

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal

    def write(self, text: str) -> None:
        """Write lines. Errors of the terminal pass through."""
        columns = _columns(self._terminal.fileno())
        if columns:
            text = "\n".join([fit(line, columns) for line in text.split("\n")])
        self._terminal.write(text)


def fit(line: str, columns: int) -> str:
    """Return as much of a line as there is room for, with ``…`` if it is not all. Codes for colours
    take no room, and are never cut."""
    if len(line) <= columns and line.isascii():
        return line
    kept, room = list[str](), columns
    full = 0  # how much of what was kept stays where there is no room for all
    for number, piece in enumerate(_COLOR.split(line)):
        if number % 2:
            kept.append(piece)
            continue
        for char in piece:
            room -= width(char)
            if room < 0:
                end = _RESET if "\x1b" in line else ""
                return "".join([*kept[:full], "…", end])
            kept.append(char)
            if room >= 1:
                full = len(kept)
    return line


def width(char: str) -> int:
    """Return how many columns a character takes (Unicode, UAX #11)."""
    if char.isascii():
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def _columns(descriptor: int) -> int:
    """The width of a terminal; 0 if it is unknown."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(descriptor).columns)
    except (OSError, ValueError):
        return 0
