"""Lists and hash tables of libstdc++ (``bits/stl_list.h``, ``forward_list.h``, ``hashtable.h``) and
libc++ (``list``, ``forward_list``, ``__hash_table``).

The kernel program follows as many nodes as there is room for.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, dereferenced, moved, rounded_up
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import DEEP_ELEMENTS, TOO_FAR, Fetcher, KeptFetcher
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.chain import Chain
from lbtrace.values.map import COUNT
from lbtrace.values.pointer import ADDRESS

FLAT_ELEMENTS = 6
"""Nodes that are followed where an element takes no fetches of its own."""


class Layout(NamedTuple):
    """The record's ``first`` member has the address of the first node ``inside`` bytes into it,
    ``length`` is the one with their number. A node has the address of the next one at ``next``,
    and its element behind ``links`` bytes."""

    first: str
    length: str
    inside: int
    next: int
    links: int


LAYOUTS = {
    "list": (
        Layout("_M_next", "_M_size", 0, 0, 2 * WORD),
        Layout("__end_", "__size_alloc_", WORD, WORD, 2 * WORD),
        Layout("__end_", "__size_", WORD, WORD, 2 * WORD),
    ),
    "forward_list": (
        Layout("_M_head", "", 0, 0, WORD),
        Layout("__before_begin_", "", 0, 0, WORD),
    ),
    "unordered": (
        Layout("_M_before_begin", "_M_element_count", 0, 0, WORD),
        Layout("__p1_", "__p2_", 0, 0, 2 * WORD),
        Layout("__first_node_", "__size_", 0, 0, 2 * WORD),
    ),
}
"""By the beginning of the name."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    own = view.name.split("<", maxsplit=1)[0]
    held = view.arguments[: 1 + own.endswith("map")]
    if len(held) < 1 + own.endswith("map"):
        return None
    for layout in LAYOUTS[own.partition("_")[0] if own.startswith("unordered") else own]:
        found = find_named(view, [name for name in (layout.first, layout.length) if name])
        if found is not None:
            break
    else:
        return None
    key = inside.element(held[0])
    value = inside.element(held[1]) if len(held) > 1 else None
    first, length = found[0][0] + layout.inside, found[1][0] if layout.length else -1
    key_at = rounded_up(layout.links, max(each.alignment for each in held))
    if not all(each.size for each in held):
        key_at = 0
    value_at = key_at + rounded_up(held[0].size, held[-1].alignment)
    return Chain(view.written, view.size, key, value, first, length, layout.next, key_at, value_at)


class KindFetcher(KeptFetcher):
    """See the module."""

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Chain)
        first = dereferenced(address, type.first)
        if len(first.derefs) > DEREFS:
            return Value(name, type.bare(), -1, TOO_FAR)
        length = replace(moved(address, type.length), read="integer", size=WORD)
        head = (
            fetcher.take("", COUNT, replace(length, optional=fetcher.is_optional))
            if type.length >= 0
            else fetcher.take("", ADDRESS, first)
        )
        if head.slot < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        nodes = _nodes(fetcher, type, first) if type.key_at else []
        return Value(name, type.bare(), head.slot, members=(head, *nodes))


def _nodes(fetcher: Fetcher, type: Chain, first: Fetch) -> list[Value]:
    """The first nodes, each with what it holds; one that leads to none, where that shows the end,
    may follow."""
    slots: dict[int, int] = {}

    def node(own: Fetcher, number: int) -> Value:
        address = first
        if number:
            address = dereferenced(Fetch(base="slot", earlier=slots[number - 1]), type.next)
        made = own.take("", ADDRESS, replace(address, optional=True))
        slots[number] = made.slot
        if made.slot < 0:
            return made
        here = Fetch(base="slot", earlier=made.slot)
        parts = [own.in_memory("", type.key, moved(here, type.key_at), 0)]
        if type.value:
            parts.append(own.in_memory("", type.value, moved(here, type.value_at), 0))
        return replace(made, members=tuple(parts))

    flat = type.key.is_flat() and (type.value is None or type.value.is_flat())
    nodes = fetcher.optional_values(FLAT_ELEMENTS if flat else DEEP_ELEMENTS, node)
    while nodes and nodes[-1].slot < 0:
        nodes.pop()
    if nodes and type.length < 0:
        behind = dereferenced(Fetch(base="slot", earlier=nodes[-1].slot), type.next)
        nodes.append(fetcher.take("", ADDRESS, replace(behind, optional=True)))
    return nodes
