"""Elements in nodes that lead to one another: ``std::list``, ``unordered_map``."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.array import UNKNOWN_MORE, Elements
from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum
from lbtrace.values.map import COUNT, Entries
from lbtrace.values.opaque import Opaque


class Chain(Type, Struct, frozen=True, tag="chain"):
    """A record with the address of a node at ``first``, and the number of nodes at ``length``; -1
    where the last node leads to none instead. A node has at ``next`` the address of the one that
    follows, at ``key_at`` an element or a key and, of a map, at ``value_at`` a value."""

    name: str
    size: int
    key: Type
    value: Type | None
    first: int
    length: int
    next: int
    key_at: int
    value_at: int = 0

    through = True

    def bare(self) -> Chain:
        return replace(self, key=Opaque(""), value=Opaque("") if self.value else None)

    def is_flat(self) -> bool:
        return False

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("size", COUNT, self.length),) if self.length >= 0 else ()

    def counted(self) -> tuple[Member, Member | None, int] | None:
        return (self.named_parts()[0], None, 1) if self.length >= 0 else None

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The first member of a value is the number of nodes, or the address of the first; each
        other one is a node, with its parts."""
        counted = self.length >= 0
        length = probe.reader(value.members[0])
        nodes = [
            (probe.reader(replace(node, members=())), [*map(probe.reader, node.members)])
            for node in value.members[1:]
        ]

        def read(fetched: Fetched) -> Datum:
            count = length(fetched)
            if not isinstance(count, int):
                return FAULT
            left = count if counted else UNKNOWN_MORE
            found: list[list[Datum]] = []
            for address, parts in nodes:
                if not left:
                    break
                where = address(fetched)
                if not counted and where == 0:
                    left = 0
                elif parts:
                    found.append([part(fetched) for part in parts])
                    left -= counted
            if self.value is None:
                return Elements(tuple([key for (key,) in found]), left)
            return Entries(tuple([(key, held) for key, held in found]), left)

        return read
