"""``std::map`` and ``std::set`` of libstdc++ (``bits/stl_tree.h``) and libc++ (``__tree``).

The kernel program cannot walk a tree: it fetches nodes by fixed ways from the first, as far as
there is room, and the reader of the event finds among them those that follow each other.
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, dereferenced, moved, rounded_up
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import PIECE, TOO_FAR, Fetcher, KeptFetcher, Span
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.map import COUNT, Map
from lbtrace.values.opaque import Opaque
from lbtrace.values.pointer import Pointer

WAYS = ("", "r", "p", "pr", "prl", "pp")
"""From the first node, ways to those that come next: the first has nothing to its left, so what
it has to its right is one node, and then comes its parent, and what that has to its right."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    arguments = view.arguments
    is_map = view.name.split("<", maxsplit=1)[0].endswith("map")
    held = arguments[: 1 + is_map]
    if len(held) < 1 + is_map:
        return None
    aligned = max(each.alignment for each in held)
    if (found := find_named(view, ("_M_header", "_M_node_count"))) is not None:
        (header, _), (length, _) = found
        links = (header + 2 * WORD, length, 2 * WORD, 3 * WORD, WORD)
        key_at = rounded_up(4 * WORD, aligned)
    elif (found := find_named(view, ("__begin_node_",))) is not None:
        ((begin, _),) = found  # then the root, and the number of nodes
        links = (begin, begin + 2 * WORD, 0, WORD, 2 * WORD)
        key_at = rounded_up(3 * WORD + 1, aligned)  # after __is_black_, in the padding of a base
    else:
        return None
    if not all(each.size for each in held):  # only declared: the number of elements is shown
        key_at = 0
    key = inside.element(held[0])
    value = inside.element(held[1]) if is_map else None
    value_at = key_at + rounded_up(held[0].size, held[1].alignment) if is_map else 0
    return Map(view.written, view.size, key, value, *links, key_at, value_at)


class KindFetcher(KeptFetcher):
    """See the module."""

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Map)
        first = dereferenced(address, type.begin)
        if len(first.derefs) > DEREFS:
            return Value(name, type.bare(), -1, TOO_FAR)
        length = replace(moved(address, type.length), read="integer", size=WORD)
        parts = [
            fetcher.take("length", COUNT, replace(length, optional=fetcher.is_optional)),
            fetcher.take("first", Pointer("void *"), first),
        ]
        if min(part.slot for part in parts) < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        ways = [way for way in WAYS if type.key_at and len(first.derefs) + len(way) <= DEREFS]
        nodes: list[Value] = []
        if ways:
            nodes = fetcher.optional_values(
                len(ways), lambda own, n: _node(own, type, first, ways[n])
            )
        while nodes and nodes[-1].slot < 0:
            nodes.pop()
        return Value(name, type.bare(), parts[0].slot, members=(*parts, *nodes))


def _node(fetcher: Fetcher, type: Map, first: Fetch, way: str) -> Value:
    """The node to which a way leads from the first one."""
    steps = {"l": type.left, "r": type.right, "p": type.parent}
    address = first
    for step in way:
        address = dereferenced(address, steps[step])
    held = [Member("key", type.key, type.key_at)]
    held += [Member("value", type.value, type.value_at)] if type.value else []
    end = max(member.offset + member.type.size for member in held)
    fetch = replace(address, read="bytes", limit=min(end, PIECE), optional=True)
    piece = fetcher.slot(fetch)
    if piece < 0:
        return Value(way, Opaque(""), -1, TOO_MANY)
    parts = [
        fetcher.in_piece(member.name, member.type, Span(address, piece, member.offset), 0)
        for member in held
    ]
    return Value(way, Opaque(""), piece, members=tuple(parts))
