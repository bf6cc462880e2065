"""The numbers that a value of Go is made of, by which its convention assigns registers.

Source: Go's ``src/cmd/compile/abi-internal.md``, "Memory layout" and "Register assignment".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lbtrace.dwarf.attributes import DEPTH
from lbtrace.dwarf.go_views import GoDieView
from lbtrace.model import Formal, Scalar
from lbtrace.recognize import Recognizer
from lbtrace.recognize.view import View

WORD = 8

LARGEST_IN_REGISTERS = 64
"""Scalars that no convention would put into registers any more."""


class Layout(NamedTuple):
    """The ``alignment`` of values of a type in bytes, and the ``scalars`` they are made of; None
    where one is an array of several elements."""

    alignment: int
    scalars: tuple[Scalar, ...] | None


class Layouts:
    """Works out the layouts of types, each once."""

    def __init__(self) -> None:
        self._known: dict[int, Layout] = {}

    def of(self, view: View, nesting: int = DEPTH) -> Layout:
        """Return the layout of the values that ``view`` describes. Raises `ValueError` where it
        would hold itself."""
        if not nesting:
            raise ValueError("types refer to each other in a circle")
        found = self._known.get(view.key)
        if found is None:
            found = self._known[view.key] = self._work_out(view, nesting - 1)
        return found

    def _work_out(self, view: View, nesting: int) -> Layout:
        if view.form == "record":
            return self._of_record(view, nesting)
        if view.form == "array":
            return self._of_array(view, nesting)
        if view.form == "base":
            return _of_number(view)
        words = range(0, view.size, WORD)
        return Layout(WORD, tuple(Scalar(at, WORD, "integer") for at in words))

    def _of_record(self, view: View, nesting: int) -> Layout:
        alignment, scalars = 1, list[Scalar]()
        certain = True
        for part in view.members:
            inner = self.of(part.type, nesting)
            alignment = max(alignment, inner.alignment)
            if inner.scalars is None or len(scalars) > LARGEST_IN_REGISTERS:
                certain = False
                continue
            scalars += [Scalar(part.offset + s.offset, s.size, s.kind) for s in inner.scalars]
        return Layout(alignment, tuple(scalars) if certain else None)

    def _of_array(self, view: View, nesting: int) -> Layout:
        if view.target is None:
            return Layout(1, None)
        element = self.of(view.target, nesting)
        count = view.counts[0]
        scalars = element.scalars if count == 1 else None
        return Layout(element.alignment, scalars if count else ())


def _of_number(view: View) -> Layout:
    size = view.size
    if view.encoding == "complex":
        half = size // 2
        return Layout(half, (Scalar(0, half, "float"), Scalar(half, half, "float")))
    kind = "float" if view.encoding == "float" else "integer"
    return Layout(max(1, min(size, WORD)), (Scalar(0, size, kind),))  # type: ignore[arg-type]


LOOKED_INTO = 2
"""Pointers that declare the types of their targets, at least: elements of slices are shown."""


def make_formal(die: Any, depth: int) -> Formal:
    """Return a variable without a name, of the type that ``die`` describes; pointers are followed
    ``depth`` deep. Raises `ValueError` where the type would hold itself."""
    view = GoDieView(die)
    layout = Layouts().of(view)
    type = Recognizer(max(depth, LOOKED_INTO)).type_of(view)
    return Formal("", type, view.size, layout.scalars, alignment=layout.alignment)
