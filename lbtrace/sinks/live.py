"""Sinks that people look at while the trace runs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lbtrace.model import Aggregates
from lbtrace.tables.view import View


@runtime_checkable
class Live(Protocol):
    """A sink with a table that is shown before its end, as its ``view`` says, or by intervals."""

    renews: bool
    view: View

    def hold(self, aggregates: Aggregates) -> None:
        """Let what is known now be what is looked at."""

    def interval(self, aggregates: Aggregates, time: str) -> None:
        """Write what was added since the last interval, which ends now: at ``time``."""

    def columns(self) -> tuple[list[str], str]:
        """Return the headings, and that by which rows are sorted."""

    def screen(self, room: int) -> tuple[list[str], int]:
        """Return at most ``room`` lines, and how many rows are not among them."""
