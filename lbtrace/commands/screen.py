"""Lines at the end of a terminal, which are written anew in the same place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO

from lbtrace.commands.fitting import fit, width

LINES, COLUMNS = 24, 80
"""Of a terminal that does not say how many it has."""


class Screen:
    """Lines on the terminal ``stream``, below what others have written."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._shown: list[str] = []

    @property
    def room(self) -> int:
        """How many lines there are, but for the one of the cursor."""
        return max(1, (os.get_terminal_size(self._stream.fileno()).lines or LINES) - 1)

    @property
    def columns(self) -> int:
        """How wide it is."""
        return os.get_terminal_size(self._stream.fileno()).columns or COLUMNS

    def show(self, lines: Sequence[str]) -> None:
        """Replace what is shown."""
        columns = self.columns
        back = self._back(columns)
        self._shown = [fit(line, columns) for line in lines[: self.room]]
        # Without a moment in which nothing is there.
        written = "".join(f"{line}\x1b[K\n" for line in self._shown)
        self._stream.write(f"{back}{written}\x1b[J")
        self._stream.flush()

    def clear(self) -> None:
        """Take the lines away."""
        if self._shown:
            self._stream.write(f"{self._back(self.columns)}\x1b[J")
            self.forget()

    def forget(self) -> None:
        """Leave the lines where they are: others may have written since."""
        self._shown = []

    def _back(self, columns: int) -> str:
        """What moves the cursor to the first line. A terminal that has become narrower shows some
        in several."""
        height = sum(max(1, -(-sum(map(width, line)) // columns)) for line in self._shown)
        return f"\x1b[{height}A\r" if height else "\r"
