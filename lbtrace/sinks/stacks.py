"""Stacks that the kernel has counted: for people, and for flame graphs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from lbtrace.model import Summary
from lbtrace.sinks.tables import Rows
from lbtrace.tables.stacks import Stack, described, fold, folded_lines, weight_text


class _Stacks(Rows):
    def rows(self) -> list[Stack]:
        """Return those that are shown, the largest weight first."""
        return [row for _, _, rows in self.tables() for row in rows]


class StackList(_Stacks):
    """The frames of each stack, the innermost first, and how often: from least to most."""

    name = "list"

    def end(self, summary: Summary) -> None:
        """Write the stacks."""
        left = sum(len(rows) for _, _, rows in self.whole()) - len(self.rows())
        if left:
            self._stream.write(f"{left:,} fewer times called stacks left out\n\n")
        for row in reversed(self.rows()):
            for line in described(row):
                self._stream.write(f"  {line}\n")
            self._stream.write(f"    {weight_text(row)}\n\n")


class FoldedStacks(_Stacks):
    """A line for each path, for flame graphs."""

    name = "folded"

    def end(self, summary: Summary) -> None:
        """Write the lines."""
        self._stream.writelines(f"{line}\n" for line in folded_lines(self.rows()))


class _Node(Struct):
    """A function that was reached from others, with what of the weight came by it."""

    weight: int = 0
    callers: dict[str, _Node] = field(default_factory=dict)


class StackTree(_Stacks):
    """Functions, below each its callers: the share of each where there are several."""

    name = "tree"

    def end(self, summary: Summary) -> None:
        """Write the trees."""
        root = _Node()
        for path, weight in fold(self.rows()):
            node = root
            node.weight += weight
            for name in reversed(path):
                node = node.callers.setdefault(name, _Node())
                node.weight += weight
        width = len(str(root.weight))
        for line in _lines(root, root.weight, width, 0):
            self._stream.write(f"{line}\n")


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
