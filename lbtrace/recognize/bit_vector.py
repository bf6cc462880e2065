"""``std::vector<bool>`` of libstdc++ (``bits/stl_bvector.h``) and libc++ (``vector``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, dereferenced, integer, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher, KeptFetcher
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.bit_vector import BitVector
from lbtrace.values.map import COUNT

ENDS, COUNTED = ("_M_start", "_M_finish"), ("__begin_", "__size_")


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    if view.arguments and view.arguments[0].encoding != "boolean":
        return None
    if (found := find_named(view, ENDS)) is not None and found[0][1].type.form == "record":
        start, finish = (at for at, _ in found)
        return BitVector(view.written, view.size, start, (start, finish, finish + WORD))
    if (found := find_named(view, COUNTED)) is not None:
        (begin, _), (length, _) = found
        return BitVector(view.written, view.size, begin, (length,))
    return None


class KindFetcher(KeptFetcher):
    """What is fetched: what tells the number of bits, and the first ones."""

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, BitVector)
        words = [integer(moved(address, at), COUNT) for at in type.counts]
        words.append(integer(dereferenced(address, type.pointer), COUNT))
        parts = [fetcher.take("", COUNT, replace(word, optional=True)) for word in words]
        if min(part.slot for part in parts) < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        return Value(name, type.bare(), parts[0].slot, members=tuple(parts))
