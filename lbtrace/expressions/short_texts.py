"""The comparison of texts that may lie in their own record: ``std::string`` of libc++, whose layout
`lbtrace.values.string` describes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, dereferenced, moved
from lbtrace.expressions.tree import Operator
from lbtrace.model import Condition, Fetch


def compare(
    places: tuple[int, int],
    record: Fetch,
    operator: Operator,
    text: bytes,
    take: Callable[[Fetch], int],
) -> list[list[Condition]]:
    """Return the conditions that the text in the ``record`` at this address compares with ``text``,
    either where it is long, at ``places`` of address and length, or where it is short; ``take``
    returns the slot of a fetch."""
    pointer, size = places
    first = replace(record, read="integer", size=1)
    is_long = take(replace(first, bit_size=1))
    found = []
    for number, (start, length) in enumerate((
        (dereferenced(record, pointer), replace(moved(first, size), size=WORD)),
        (moved(record, 1), replace(first, bit_offset=1, bit_size=7)),
    )):  # fmt: skip
        limit = len(text) + 1
        fetch = replace(start, read="bytes", limit=limit, length_from=take(length), optional=True)
        other = Condition(is_long, "==", number, False)
        same = Condition(take(fetch), operator, 0, False, subject="text", text=text)
        found.append([other, same])
    return found
