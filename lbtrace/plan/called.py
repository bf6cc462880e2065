"""A function of a library, as the stub of a program leads to it."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.model import Function
from lbtrace.plan import error_numbers
from lbtrace.plan.traced_functions import TracedFunction


class Called(NamedTuple):
    """The ``function`` in its ``image``; the program calls it by ``name``, as one of its symbols
    has it, through a ``slot`` of the GOT."""

    image: Image
    function: Function
    name: str
    slot: int

    def at_stub(self, stub: Function, traced: TracedFunction) -> TracedFunction:
        """Return what is ``traced`` of the function at the stub: what the registers hold and the
        stack is the same there."""
        shown = replace(
            traced.function,
            name=stub.name if self.name == stub.name else traced.function.name,
            address=stub.address,
            size=stub.size,
            offset=stub.offset,
        )
        values = error_numbers.by_slot(self.image, self.function, traced.call_values, self.slot)
        return TracedFunction(shown, values, traced.prototype)
