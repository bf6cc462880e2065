"""Values of very many parts: how many of them are looked at."""

from __future__ import annotations

import pytest

from lbtrace.abi.locations import Detail
from lbtrace.model import Fetch, Value
from lbtrace.recognize.fetcher import ELEMENTS, PARTS, Fetcher
from lbtrace.values.array import Array
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record

DIMENSIONS = 9
BYTE = Integer("unsigned char", 1, False)
ELEMENTARY = [BYTE, Pointer("void *", 8), Record("Empty", 0)]


def count(value: Value) -> int:
    """The parts of a value, and itself."""
    return 1 + sum(map(count, value.members))


@pytest.mark.parametrize("element", ELEMENTARY, ids=lambda each: each.name)
def test_arrays_of_arrays(element: Array | Integer) -> None:
    """In C such types are allowed, and debug information may describe any."""
    kind = element
    for _ in range(DIMENSIONS):
        kind = Array("", 10 * kind.size, kind, 10)
    fetcher = Fetcher(16, Detail())
    made = fetcher.in_memory("many", kind, Fetch(register="di"), 0)
    assert made.members
    assert count(made) <= PARTS + DIMENSIONS * ELEMENTS
