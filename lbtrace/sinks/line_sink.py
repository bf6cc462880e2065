"""Sinks whose lines native code can write as well (`lbtrace.sinks.lines`), and what these are made
of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from lbtrace.model import Argument, Datum, Plan
from lbtrace.sinks.base import Sink
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.times import Times

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch


class Piece(NamedTuple):
    """A ``struct lbt_piece``."""

    kind: int
    text: str = ""
    flags: int = 0
    skip: int = 0


Pieces: TypeAlias = Sequence["Piece | str"]


class Lines(NamedTuple):
    """The lines of calls that a probe opens: ``entry`` at an entry (where they are ``delayed``,
    when something else follows it), ``leaf`` at a return right after it, ``returned`` at any other,
    and the same where a call ends by a jump to another function."""

    entry: Pieces
    leaf: Pieces
    returned: Pieces
    tail_leaf: Pieces
    tail_returned: Pieces


class LineSink(Sink):
    """What it writes of values itself is what native code writes, too."""

    takes_fast_batches = True
    delayed: ClassVar[bool] = False
    """Whether an entry has its line when something else follows it, not at once."""
    quotes_addresses: ClassVar[bool] = False
    quotes_large: ClassVar[bool] = False
    """Whether integers that a double does not hold are in quotation marks."""
    nests: ClassVar[bool] = True
    """Whether a value that is a part of another is written as by itself."""

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._writer: Any = None
        self.times: Times | None = None
        """The column with the time of each line, if there is one."""

    def grow(self, plan: Plan) -> None:
        super().grow(plan)
        self._writer = None

    def takes(self, fast_batch: FastBatch) -> bool:
        return True

    def native_lines(self, fast_batch: FastBatch) -> tuple[str, int]:
        """Return the lines of a fast batch, and how many they are."""
        if self._writer is None:  # few calls do without
            self._writer = import_module("lbtrace.sinks.lines").LineWriter(self._plan, self)
        text, count = self._writer.write(fast_batch)
        return text, count

    @abstractmethod
    def lines(self, number: int, arguments: Pieces, result: Pieces) -> Lines:
        """Return the lines of calls that the probe of this number opens, from those of their
        arguments and their result."""

    @abstractmethod
    def value(self, value: Datum) -> str:
        """Return a value."""

    @abstractmethod
    def arguments(self, probe: int, arguments: Sequence[Argument]) -> str:
        """Return the arguments of a call that this probe opens."""

    @abstractmethod
    def result(self, probe: int, result: Datum) -> str:
        """Return the result of such a call, with what stands before it."""

    def class_name(self, name: str) -> str:
        """Return the name of the class of an object as a `value` has it."""
        return name

    def indents(self, depth: int) -> tuple[str, str]:
        """Return what stands before a call at a depth, and before its return."""
        return "", ""
