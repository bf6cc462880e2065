"""Arguments that may lie elsewhere than the convention says, because nothing is passed for a part
of an earlier one.

LLVM passes the parts of a struct as parameters of their own, and drops those that a function does
not read where it knows all callers (``DeadArgumentElimination.cpp``, ``ArgumentPromotion.cpp``; the
latter marks no function that it changed). What comes after moves up, or stays where another value
is passed in place of the part: only a register that debug information names shows which.
"""

from __future__ import annotations

from collections.abc import Callable

from lbtrace.abi.locations import UNKNOWN, Location, find_piece, is_absent
from lbtrace.model import Fetch, Formal

MEMORY = "memory"


class Shifts:
    """Whether the arguments up to the last one are where a convention has them. The ``name`` of a
    register is what locations call it."""

    def __init__(self, name: Callable[[int], str]) -> None:
        self._name = name
        self._dropped: set[str] = set()
        self._after = ""

    def follow(self, formal: Formal, place: Location) -> bool:
        """Go on to ``formal``, which the convention has in ``place``. False where debug information
        has it elsewhere, as something before it is not passed."""
        for word, start, end in place.spans():
            kind = _kind(word)
            if is_absent(formal, word, start, end):
                if formal.may_shift:
                    self._dropped.add(kind)
                    self._after = formal.name
                continue
            named = find_piece(formal, start, end)
            number = formal.register if named is None else named.register
            if number < 0 or kind not in self._dropped | {MEMORY}:
                continue
            if self._name(number) == _register(word):
                self._dropped.discard(kind)
            elif self._dropped:
                return False
        return True

    def confirm(self, place: Location, pushed: Location) -> None:
        """Note that debug information has an argument where its caller ``pushed`` it. If that is
        its ``place`` by the convention, nothing before it has moved either."""
        if place == pushed:
            self._dropped.clear()

    def why_unreliable(self, place: Location) -> str:
        """Return why it is not certain that an argument is in ``place``, if it is not."""
        kinds = {_kind(word) for word, _, _ in place.spans()}
        if place.memory is not None:
            kinds.add(MEMORY)
        unreliable = self._dropped & kinds or (MEMORY in kinds and self._dropped)
        return self.reason if unreliable else ""

    @property
    def reason(self) -> str:
        """Why an argument is unknown that may have moved."""
        return f"{UNKNOWN} after {self._after or 'an unnamed parameter'}"


def may_drop(formal: Formal) -> bool:
    """Return whether what comes after ``formal`` may have moved, as it is not passed, or a part of
    it is not."""
    return formal.may_shift and bool(formal.pieces or formal.missing_reason)


def _register(word: Fetch | str) -> str:
    return word if isinstance(word, str) else word.register


def _kind(word: Fetch | str) -> str:
    """The kind of registers, which are assigned one after the other, or memory."""
    if isinstance(word, str):
        return "float"
    return "integer" if word.base == "register" else MEMORY
