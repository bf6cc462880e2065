"""Rows of which only those are made that are looked at: few of many are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

_Row = TypeVar("_Row")

CHUNK = 64
"""Rows that are made at once where all are asked for, one after the other."""


class Lazy(Sequence[_Row]):
    """So many rows, taken from an iterator up to the last that is asked for."""

    def __init__(self, count: int, rows: Iterable[_Row]) -> None:
        self._count = count
        self._rest = iter(rows)
        self._made: list[_Row] = []

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> _Row: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[_Row]: ...

    def __getitem__(self, at: int | slice) -> _Row | Sequence[_Row]:
        wanted = range(self._count)[at]
        if isinstance(wanted, int):
            self._make(wanted + 1)
            return self._made[wanted]
        self._make(max(wanted, default=-1) + 1)
        return self._made[wanted.start : wanted.stop] if wanted.step == 1 else self._made[at]

    def __iter__(self) -> Iterator[_Row]:
        for at in range(self._count):
            if at == len(self._made):
                self._make(at + CHUNK)
            yield self._made[at]

    def _make(self, count: int) -> None:
        self._made += islice(self._rest, max(0, count - len(self._made)))
