"""Functions that do not have what was asked of them: the argument that an expression names, say."""

from __future__ import annotations

from collections.abc import Iterator

from lbtrace.errors import UsageError
from lbtrace.plan.warnings import name_functions


class Mismatches:
    """Collects such functions. They are left out, because a pattern means many functions, and what
    is asked of them only some have; where none is left, the error of the one that has most of it is
    raised."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._example: tuple[str, UsageError, tuple[bool, bool, bool, int]] | None = None

    def add(self, name: str, error: UsageError, *, declared: bool) -> None:
        """Keep that the function ``name`` is left out because of ``error``, an expression's.
        ``declared``: debug information describes it, so that the error tells what it has."""
        _, _, what = error.message.partition(": ")
        self._names.setdefault(what, []).append(name)
        fits = declared, *error.understood
        if self._example is None or fits > self._example[2]:
            self._example = name, error, fits

    def check(self, count: int) -> None:
        """Raise the error of one of them where the ``count`` of the functions left is 0."""
        if self._example is None or count:
            return
        name, error, _ = self._example
        if sum(map(len, self._names.values())) > 1:
            error.specify(f"in {name}")
        raise error

    def warnings(self) -> Iterator[str]:
        """Yield what to say of the functions that are left out."""
        for what, names in self._names.items():
            yield from name_functions(names, f"left out: {what}")
