"""From where functions are called, as calls with their callers tell (``attach --stack``)."""

from __future__ import annotations

from lbtrace.model import Call, Frame
from lbtrace.tables.stacks import Stack, in_order

LOST = "callers lost"
"""The end of stacks whose callers were lost, all of them."""

Key = tuple[str, str, tuple[Frame, ...], str]


class CalledStacks:
    """Counts ended calls and points by function and callers, and what ``value`` amounts to in them:
    ``duration``, ``retval`` or the name of an argument, which is unread where it is no integer."""

    def __init__(self, value: str = "") -> None:
        self._value = value
        self._found: dict[Key, list[int]] = {}

    def add(self, call: Call) -> None:
        """Count a call."""
        callers = call.callers
        frames, end = (callers.frames, callers.end) if callers else ((), LOST)
        words = self._found.setdefault((call.name, call.binary, frames, end), [0, 0, 0])
        words[0] += 1
        if self._value:
            value = self._read(call)
            words[1] += value or 0
            words[2] += value is None

    def rows(self) -> list[Stack]:
        """Return a row for each function and stack, the largest weight first."""
        unit = "ns" if self._value == "duration" else ""
        return in_order(
            Stack(
                *(name, binary, count, (Frame(name, 0, binary), *frames), end),
                total=total if self._value else None,
                unread=unread,
                unit=unit,
            )
            for (name, binary, frames, end), (count, total, unread) in self._found.items()
        )

    def _read(self, call: Call) -> int | None:
        if self._value == "duration":
            return call.duration
        value = call.result if self._value == "retval" else None
        if self._value in call:
            value = call[self._value]
        return value if isinstance(value, int) else None
