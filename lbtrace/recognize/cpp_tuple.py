"""``std::tuple``: libstdc++'s and libc++'s (``tuple``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.record import Record

LEAF = re.compile(r"(?:_Head_base|__tuple_leaf)<(\d+)")
"""The base class that holds an element, by its number. Where compilers leave arguments out of names
(``-gsimple-template-names``) it is not known."""

LAST = re.compile(r"_Tuple_impl<(\d+)")
"""The base class of libstdc++ that holds an element and those after it."""

HELD = ("_M_head_impl", "__value_")

LIBCXX = "__base_"
"""The member of libc++'s tuple whose bases have the elements."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    elements: dict[int, Member] = {}
    count = len(view.arguments)
    for start, part in _bases(view):
        if last := LAST.match(part.name):  # of gcc's packs nothing is known
            count = max(count, int(last[1]) + 1)
        if (leaf := LEAF.match(part.name)) is None:
            continue
        number = int(leaf[1])
        held = [each for each in part.members if each.name in HELD or each.is_base]
        if len(held) == 1:
            at = start + held[0].offset
            elements[number] = Member(f"__{number}", inside.part(held[0].type), at)
    if not count or sorted(elements) != [*range(count)]:
        return None
    members = tuple(elements[n] for n in range(count))
    return Record(f"({', '.join(each.type.name for each in members)})", view.size, members)


def _bases(view: View, start: int = 0) -> Iterator[tuple[int, View]]:
    """The classes that a tuple is made of, with their offsets, but for those of its elements, which
    may be tuples."""
    for part in view.members:
        if part.placed and (part.is_base or part.name == LIBCXX):
            yield start + part.offset, part.type
            if not LEAF.match(part.type.name):
                yield from _bases(part.type, start + part.offset)
