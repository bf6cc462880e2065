"""The order in which the rows of a table are looked at, and which of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

DOWN, UP = "▼", "▲"


class View(Struct, frozen=True):
    """How a table is looked at: by the ``column`` of that heading, the largest number and the first
    text first, or ``reverse``; where it is empty, in the table's own order. Only rows that have
    ``text`` somewhere, in letters of any case. A terminal has ``width``, 0: all have room."""

    column: str = ""
    reverse: bool = False
    text: str = ""
    width: int = 0


PLAIN = View()
"""All rows, in the table's own order."""


def mark(headings: Sequence[str], view: View) -> tuple[str, ...]:
    """Return headings, of which one shows that rows are by it."""
    sign = UP if view.reverse else DOWN
    return tuple(f"{each}{sign}" if each == view.column else each for each in headings)


def arrange(
    rows: Sequence[Any],
    view: View,
    rank: Callable[[Any], Any] | None,
    text: Callable[[Any], str],
) -> Sequence[Any]:
    """Return the rows that a view shows, by what ``rank`` gives of each if it is not None; those of
    which that is None last. ``text`` is what is looked for text in."""
    wanted = view.text.casefold()
    found = [row for row in rows if wanted in text(row).casefold()] if wanted else rows
    if rank is None:
        return found[::-1] if view.reverse else found
    known, unknown = list[tuple[Any, Any]](), []
    for row in found:
        value = rank(row)
        known += [] if value is None else [(_order(value), row)]
        unknown += [row] if value is None else []
    known.sort(key=lambda pair: pair[0], reverse=view.reverse)
    return [row for _, row in known] + unknown


def _order(value: Any) -> tuple[int, Any]:
    return (0, -value) if isinstance(value, (int, float)) else (1, str(value))
