"""``std::tuple``: libstdc++'s and libc++'s (``tuple``)."""

from __future__ import annotations

import re

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View, find_parts
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.record import Record

LEAF = re.compile(r"(?:_Head_base|__tuple_leaf)<(\d+)")
"""The base class that holds an element, by its number. Where compilers leave arguments out of names
(``-gsimple-template-names``) it is not known."""

LAST = re.compile(r"_Tuple_impl<(\d+)")
"""The base class of libstdc++ that holds an element and those after it."""

HELD = ("_M_head_impl", "__value_")

DEEPEST = 40


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    elements: dict[int, Member] = {}
    count = len(view.arguments)
    for start, part in find_parts(view, 0, DEEPEST):
        if part.is_base and (last := LAST.match(part.type.name)):  # of gcc's packs nothing is known
            count = max(count, int(last[1]) + 1)
        leaf = LEAF.match(part.type.name) if part.is_base else None
        if leaf is None or int(leaf[1]) in elements:
            continue
        number = int(leaf[1])
        held = [each for each in part.type.members if each.name in HELD]
        if len(held) == 1:
            at = start + held[0].offset
            elements[number] = Member(f"__{number}", inside.part(held[0].type), at)
    if not count or sorted(elements) != [*range(count)]:
        return None
    members = tuple(elements[n] for n in range(count))
    return Record(f"({', '.join(each.type.name for each in members)})", view.size, members)
