"""Stacks that the kernel has counted, or calls by their callers: for people and flame graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from lbtrace.model import Aggregates, Call, Plan, Summary
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.tables import CsvTable, JsonTable, Rows
from lbtrace.tables import Table, table_of
from lbtrace.tables.called_stacks import CalledStacks
from lbtrace.tables.stacks import TABLE, Stack, described, fold, folded_line, weight_text
from lbtrace.tables.table import seen
from lbtrace.text import clean


class StackRows(Rows):
    """Collects the rows. ``value`` is what is added up where calls are sent: see `CalledStacks`."""

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN, *, value: str = "") -> None:
        super().__init__(stream, plan, layout)
        self._called = CalledStacks(value)

    def exit(self, call: Call) -> None:
        """Count it by its callers."""
        self._called.add(call)

    def rows(self, found: Aggregates) -> list[Stack]:
        """Return all rows, the largest weight first."""
        if "stacks" in self._plan.actions:
            return table_of(self._plan, found, "stacks")
        return self._called.rows()

    def hold(self, aggregates: Aggregates) -> None:
        """See `Rows`."""
        self._held = [("stacks", TABLE, self.rows(aggregates))]

    def tables(self, found: Aggregates) -> list[tuple[str, Table, Sequence[Any], int]]:
        """See `Rows`."""
        rows = seen(TABLE, self.rows(found), self.view)
        shown = rows[: self.layout.top]
        return [("stacks", TABLE, shown, len(rows) - len(shown))]


class StackJson(StackRows, JsonTable):
    """All that is known of each stack, in one object."""


class StackCsv(StackRows, CsvTable):
    """A line for each stack, its functions in one field."""


class _Stacks(StackRows):
    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Write the stacks, below the time."""
        if time:
            self._stream.write(f"{time}\n")
        rows = seen(TABLE, self.rows(found), self.view)
        self.write_stacks(rows[: self.layout.top], rows)

    @abstractmethod
    def write_stacks(self, rows: Sequence[Stack], whole: Sequence[Stack]) -> None:
        """Write the rows, the largest weight first, of all of them."""


class StackList(_Stacks):
    """The frames of each stack, the innermost first, and how often: from least to most."""

    name = "list"
    renews = True

    def write_stacks(self, rows: Sequence[Stack], whole: Sequence[Stack]) -> None:
        """Write the stacks."""
        if left := len(whole) - len(rows):
            self._stream.write(f"{left:,} more, none of them larger\n\n")
        if self.view.text:
            self._stream.write(f"only stacks with {clean(self.view.text)}\n\n")
        for row in reversed(rows):
            for line in described(row):
                self._stream.write(f"  {line}\n")
            self._stream.write(f"    {weight_text(row)}\n\n")


class FoldedStacks(_Stacks):
    """A line for each path, for flame graphs."""

    name = "folded"

    def write_stacks(self, rows: Sequence[Stack], whole: Sequence[Stack]) -> None:
        """Write the lines."""
        self._stream.writelines(folded_line(path, weight) for path, weight in fold(rows))


class _Node(Struct):
    """A function that was reached from others, with what of the weight came by it."""

    weight: int = 0
    callers: dict[str, _Node] = field(default_factory=dict)


class StackTree(_Stacks):
    """Functions, below each its callers: the share of all that each has where there are several."""

    name = "tree"

    def write_stacks(self, rows: Sequence[Stack], whole: Sequence[Stack]) -> None:
        """Write the trees."""
        root = _Node()
        for path, weight in fold(rows):
            node = root
            node.weight += weight
            for name in reversed(path):
                node = node.callers.setdefault(name, _Node())
                node.weight += weight
        total = sum(row.weight for row in whole)
        for line in _lines(root, total, len(str(total)), 0):
            self._stream.write(f"{line}\n")
        if left := len(whole) - len(rows):
            self._stream.write(f"and {left:,} more stacks: {total - root.weight:,}\n")


def _lines(node: _Node, total: int, width: int, depth: int) -> Iterator[str]:
    """What is below a node, the largest weight first. Only where a function has several callers
    they are indented, and have numbers."""
    for name, caller in sorted(node.callers.items(), key=lambda item: -item[1].weight):
        share = f"{caller.weight / total:7.1%}" if total else ""
        yield f"{caller.weight:>{width}} {share:7}  {'  ' * depth}{name}"
        last = caller
        while len(last.callers) == 1:
            ((only, last),) = last.callers.items()
            yield f"{'':{width}} {'':7}  {'  ' * depth}{only}"
        yield from _lines(last, total, width, depth + 1)
