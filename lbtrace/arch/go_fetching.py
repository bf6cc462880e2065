"""What to fetch of values of Go that expressions lead to."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.arch import go_abi, go_values
from lbtrace.arch.fetching import Fetcher
from lbtrace.arch.places import DEREFS, WORD, Place, dereferenced
from lbtrace.arch.slots import NO_SLOT
from lbtrace.model import Fetch, Record, Type, Value

DEEPER = 3
"""Loads from an interface's place on, to what it tells."""


class GoFetcher(Fetcher):
    """A `Fetcher` that knows Go's own kinds of values."""

    def value(self, name: str, type: Type, place: Place) -> Value:
        """See `Fetcher.value`."""
        made = self._own(name, type, place)
        if made is None:
            return super().value(name, type, place)
        self.cut += made.slot < 0 and made.reason == NO_SLOT
        return made

    def _own(self, name: str, type: Type, place: Place) -> Value | None:
        """A value of Go's own kinds, or one that holds such; None of any other."""
        single = go_values.is_interface(type) or go_values.is_slice(type)
        single |= go_values.is_counted(type)
        if not single and (not isinstance(type, Record) or go_values.is_flat(type)):
            return None
        if place.memory is not None:
            deep = len(place.memory.derefs) + DEEPER > DEREFS
            return None if deep else go_abi.in_memory(self, name, type, place.memory)
        if isinstance(type, Record) and not single:
            members = [self.value(m.name, m.type, place.inside(m.offset)) for m in type.members]
            return go_abi.composed(name, type, members) if members else None
        at = range(0, getattr(type, "size", WORD), WORD)
        words = [_loaded(word) for n in at if isinstance(word := place.word(n)[0], Fetch)]
        if len(words) < len(at):
            return None
        return go_abi.in_registers(self, name, type, 0, dict(zip(at, words, strict=True)))


def _loaded(word: Fetch) -> Fetch:
    """A word as a value that leads on, also where it lies in memory."""
    return dereferenced(replace(word, read="value")) if word.read == "integer" else word
