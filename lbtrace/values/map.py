"""Trees of sorted elements: ``std::map``, ``std::set``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.array import Elements, more_text
from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import (
    FAULT,
    Datum,
    Form,
    Partial,
    column_of,
    json_of,
    lacks_of,
)
from lbtrace.values.integer import Integer
from lbtrace.values.notation import text
from lbtrace.values.opaque import Opaque

WORD = 8

COUNT = Integer("unsigned long", WORD, False)
"""The type of the number of elements."""


class Entries(Form, Struct, frozen=True):
    """The value of a map: its first keys with their values, in order, and how many ``more``
    follow. ``value[key]`` is that of a key, ``dict(value)`` all that were read."""

    entries: tuple[tuple[Datum, Datum], ...]
    more: int = 0

    column_kind = "nested"

    def __getitem__(self, key: Datum) -> Datum:
        return dict(self.entries)[key]

    def __iter__(self) -> Iterator[tuple[Datum, Datum]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self) -> list[Datum]:
        """Return the keys, in order."""
        return [key for key, _ in self.entries]

    def text(self) -> str:
        shown = [f"{text(key)}: {text(value)}" for key, value in self.entries]
        return f"{{{', '.join(shown + more_text(self.more))}}}"

    def json(self) -> Any:
        """Return a list of pairs: keys need not be text."""
        return [[json_of(key), json_of(value)] for key, value in self.entries]

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.more:
            yield path, {"length": len(self.entries) + self.more}
        for n, entry in enumerate(self.entries):
            for m, part in enumerate(entry):
                yield from lacks_of(part, f"{path}/{n}/{m}")

    def column(self) -> Any:
        if self.more:
            raise Partial
        return [{"key": column_of(key), "value": column_of(value)} for key, value in self.entries]

    def expression(self) -> tuple[str, Sequence[Datum], int]:
        return "hash", [part for entry in self.entries for part in entry], self.more


class Map(Type, Struct, frozen=True, tag="map"):
    """A binary tree of nodes. The record has their number at ``length``, and at ``begin`` the
    address of the first node in order; a node has at ``left``, ``right`` and ``parent`` the
    addresses of others, at ``key_at`` its key and, of a map, at ``value_at`` a value."""

    name: str
    size: int
    key: Type
    value: Type | None
    begin: int
    length: int
    left: int
    right: int
    parent: int
    key_at: int
    value_at: int

    through = True

    def bare(self) -> Map:
        return replace(self, key=Opaque(""), value=Opaque("") if self.value else None)

    def is_flat(self) -> bool:
        return False

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("size", COUNT, self.length),)

    def counted(self) -> tuple[Member, Member | None, int]:
        return self.named_parts()[0], None, 1

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The members of a value are the number of nodes, the address of the first, and of the
        nodes that were fetched those by which one comes there: ``"rp"`` is the parent of the
        node to the right of the first."""
        length, begin = (probe.reader(member) for member in value.members[:2])
        nodes = [
            (node.name, node.slot, tuple(probe.reader(part) for part in node.members))
            for node in value.members[2:]
        ]
        is_map = self.value is not None

        def read(fetched: Fetched) -> Datum:
            count, first = length(fetched), begin(fetched)
            if not isinstance(count, int) or not isinstance(first, int):
                return FAULT
            tree = _Tree(self, fetched, first, [(path, slot) for path, slot, _ in nodes])
            found = [nodes[number][2] for number in tree.in_order(count)]
            read = [tuple([part(fetched) for part in parts]) for parts in found]
            more = count - len(read)
            if is_map:
                return Entries(tuple([(key, held) for key, held in read]), more)
            return Elements(tuple([key for (key,) in read]), more)

        return read


class _Tree:
    """The nodes of a tree that were fetched, by their addresses."""

    def __init__(
        self, type: Map, fetched: Fetched, first: int, nodes: Sequence[tuple[str, int]]
    ) -> None:
        self._offsets = {"l": type.left, "r": type.right, "p": type.parent}
        self._first = first
        self._nodes: dict[int, tuple[int, bytes]] = {}
        addresses = {"": first}
        for number, (path, slot) in enumerate(nodes):
            # Each path is that of an earlier node and a step on.
            if path:
                before = self._nodes.get(addresses.get(path[:-1], 0))
                if before is None:
                    continue
                addresses[path] = self._link(before[1], path[-1])
            if not fetched.faults >> slot & 1 and addresses[path]:
                piece = bytes(fetched.pieces.get(slot, b""))
                if len(piece) >= type.key_at:
                    self._nodes.setdefault(addresses[path], (number, piece))

    def _link(self, piece: bytes, step: str) -> int:
        at = self._offsets[step]
        return int.from_bytes(piece[at : at + WORD], "little")

    def in_order(self, count: int) -> Iterator[int]:
        """Yield the numbers of the first of ``count`` nodes, as far as the path from each to the
        next has only fetched nodes."""
        here = self._first
        for _ in range(min(count, len(self._nodes))):
            if here not in self._nodes:
                return
            yield self._nodes[here][0]
            here = self._next(here)

    def _next(self, here: int) -> int:
        """The address of the node that follows in order, 0 where that is not known."""
        right = self._link(self._nodes[here][1], "r")
        if right:
            steps = 0
            while right in self._nodes and steps < len(self._nodes):
                left = self._link(self._nodes[right][1], "l")
                if not left:
                    return right
                right, steps = left, steps + 1
            return 0
        for _ in range(len(self._nodes)):
            parent = self._link(self._nodes[here][1], "p")
            if parent not in self._nodes:
                # Nothing precedes the first node: an ancestor reached from its left is the next.
                return 0
            if self._link(self._nodes[parent][1], "l") == here:
                return parent
            here = parent
        return 0
