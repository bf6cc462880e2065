"""Recognises kinds of values in programs, and says what to fetch of them.

A kind has a file here, named as its row in `lbtrace.values.KINDS`, with one or both of

* ``recognize(view, inside)``: the type of which a value is, from a `View` of it; None where it is
  none of this kind.
* ``KindFetcher``: what is fetched of such a value (`lbtrace.recognize.fetcher`), where that is more
  than a number.

Types are looked into only as far as they can be shown: pointers ``depth`` deep, records and arrays
that are part of a value to a bound. Whatever is damaged, circular or without end stops there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lbtrace.values import KINDS, Type

if TYPE_CHECKING:
    from lbtrace.recognize.view import View


class Bounds(Struct, frozen=True):
    """How far a type is looked into: records within records, types in all, members of one."""

    nesting: int = 8
    types: int = 2000
    members: int = 64


BOUNDS = Bounds()
"""Of descriptions that may be damaged, and in which each type is looked at again for each value."""

TOO_DEEP = "nested too deeply"

SCALARS = frozenset({"base", "enumeration", "pointer"})
"""Forms of types whose values are numbers, or addresses."""

REFERRED = frozenset({*SCALARS, "array"})
"""Forms of types that are looked into wherever a reference leads to them."""

NESTED = frozenset({"record", "array"})


class Recognizer:
    """Finds the types of values. Pointers are followed ``depth`` deep. One that is ``lasting``
    keeps what it finds, by the keys of views, which must come from one description."""

    def __init__(self, depth: int = 0, bounds: Bounds = BOUNDS, *, lasting: bool = False) -> None:
        self._depth = depth
        self._lasting = lasting
        self._found: dict[tuple[int, int], Type] = {}
        self.bounds, self.left = bounds, bounds.types

    def type_of(self, view: View) -> Type:
        """Return the type of the values that ``view`` describes."""
        self.left = self.bounds.types
        return self.recognize(view, self.bounds.nesting, self._depth)

    def recognize(self, view: View, nesting: int, depth: int) -> Type:
        """Return the same, of a part that is ``nesting`` and ``depth`` from the bounds."""
        if not self._lasting:
            return self._recognize(view, nesting, depth)
        found = self._found.get((view.key, depth))
        if found is None:
            found = self._recognize(view, nesting, depth)
            if self.left >= 0:  # it is whole
                self._found[view.key, depth] = found
        return found

    def _recognize(self, view: View, nesting: int, depth: int) -> Type:
        self.left -= 1
        if view.form == "nothing":
            return _opaque(view)
        if _is_declared(view):
            view = view.definition or view
        nested = view.form in NESTED
        if nested and not nesting and self._lasting:
            self.left = -1  # nothing that holds this is kept
        if self.left < 0 or (nested and not nesting):
            return _opaque(view, TOO_DEEP)
        inside = Inside(self, nesting - nested, depth)
        made = (module.recognize(view, inside) for module in _modules(view))
        return next(filter(None, made), None) or _unrecognized(view)

    def kept(self, view: View, nesting: int) -> Type | None:
        """Return the type of a value that is shown wherever a reference leads to it; None of any
        other."""
        inside = Inside(self, nesting, 0)
        made = (module.recognize(view, inside) for module in _modules(view, through=True))
        return next(filter(None, made), None)


class Inside:
    """What recognisers ask for the types of the parts of a value."""

    def __init__(self, recognizer: Recognizer, nesting: int, depth: int) -> None:
        self._recognizer, self._nesting, self._depth = recognizer, nesting, depth

    @property
    def is_exhausted(self) -> bool:
        """Whether no more types are looked at."""
        return self._recognizer.left < 0

    @property
    def most_members(self) -> int:
        """Members of a record that are looked at."""
        return self._recognizer.bounds.members

    @property
    def follows(self) -> bool:
        """Whether what lies elsewhere is looked into."""
        return self._depth > 0

    def part(self, view: View) -> Type:
        """Return the type of a part that lies in the value itself."""
        return self._recognizer.recognize(view, self._nesting, self._depth)

    def element(self, view: View) -> Type:
        """Return the type of a part that lies elsewhere, and is shown whatever the depth."""
        return self._recognizer.recognize(view, self._nesting, max(0, self._depth - 1))

    def alternative(self, view: View) -> Type:
        """Return the type of a part that takes the place of the whole value."""
        return self._recognizer.recognize(view, self._nesting + 1, self._depth)

    def target(self, view: View, *, single: bool) -> Type | None:
        """Return the type of what a pointer leads to; None where it is not followed so far."""
        # Strings are shown whatever the depth, and what a reference stands for is compared.
        if view.form in (REFERRED if single else ("base",)) or self._depth > 0:
            return self._recognizer.recognize(view, self._nesting, self._depth - 1)
        if _is_declared(view):  # so that nobody takes its bytes for anything
            return _unrecognized(view)
        if not single:
            return None
        outermost = self._nesting == self._recognizer.bounds.nesting
        kept = self._recognizer.kept(view, self._nesting)
        if kept is None and outermost and view.language == "c++":
            return self._recognizer.recognize(view, self._nesting, 0)
        return kept


def _is_declared(view: View) -> bool:
    """Whether a type is named only, not defined."""
    return view.form in ("record", "enumeration") and not view.is_sized


def _unrecognized(view: View) -> Type:
    from lbtrace.values.opaque import DECLARED  # imported here because most types are known

    return _opaque(view, DECLARED if _is_declared(view) else "")


def _opaque(view: View, reason: str = "") -> Type:
    from lbtrace.values.opaque import Opaque  # imported here because most types are known

    return Opaque(view.written, reason)


def _modules(view: View, *, through: bool = False) -> Iterator[Any]:
    """What may recognise a type, in order of the table."""
    form, languages, name = view.form, ("", view.language), None
    for row in KINDS:
        if row.form != form or row.language not in languages or (through and not row.through):
            continue
        if row.pattern and name is None:
            name = view.name
        if not row.pattern or re.match(row.pattern, name or ""):
            yield import_module(f"lbtrace.recognize.{row.name}")
