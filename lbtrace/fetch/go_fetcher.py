"""What to fetch of values of Go that expressions lead to."""

from __future__ import annotations

from lbtrace.abi.locations import DEREFS, Location
from lbtrace.fetch import go_call_values
from lbtrace.model import Type, Value
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.recognize.slots import TOO_MANY

DEEPER = 3
"""Loads from an interface's address to the hash of its dynamic type."""


class GoFetcher(Fetcher):
    """A `Fetcher` that takes structs apart which hold more than numbers, as Go passes them."""

    def value(self, name: str, type: Type, place: Location) -> Value:
        """See `Fetcher.value`."""
        parts = None if type.is_flat() else type.components()
        memory = place.memory
        if memory is None or not parts or len(memory.derefs) + DEEPER > DEREFS:
            return super().value(name, type, place)
        made = go_call_values.in_memory(self, name, type, memory)
        self.cut += made.slot < 0 and made.reason == TOO_MANY
        return made
