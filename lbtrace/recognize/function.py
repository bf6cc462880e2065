"""``std::function`` of libstdc++ (``bits/std_function.h``) and libc++
(``__functional/function.h``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, dereferenced, integer, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import TOO_FAR, Fetcher, KeptFetcher
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.function import Function
from lbtrace.values.map import COUNT
from lbtrace.values.pointer import TABLE, Pointer

LIBSTDCXX, LIBCXX = ("_M_functor", "_M_manager", "_M_invoker"), ("__buf_", "__f_")

CODE = Pointer("void (*)()", code=True)


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    if (found := find_named(view, LIBSTDCXX)) is not None and not found[0][0]:
        return Function(view.written, view.size, found[1][0], found[2][0])
    outer = next((part for part in view.members if part.name == "__f_"), None)
    if outer is not None and (found := find_named(outer.type, LIBCXX)) is not None:
        at = outer.offset + found[1][0]
        return Function(view.written, view.size, at, at)
    return None


class KindFetcher(KeptFetcher):
    """What is fetched: whether there is a target, what calls it, and its first word."""

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Function)
        caller, target = dereferenced(address, type.caller), dereferenced(address)
        if type.caller == type.present:  # an object, with the target behind its first word
            target = dereferenced(caller, WORD)
            caller = dereferenced(caller)
        if max(len(caller.derefs), len(target.derefs)) > DEREFS:
            return Value(name, type.bare(), -1, TOO_FAR)
        present = integer(moved(address, type.present), COUNT)
        parts = [
            fetcher.take("", COUNT, replace(present, optional=fetcher.is_optional)),
            fetcher.take(TABLE, COUNT, replace(caller, optional=True)),
            fetcher.take("", CODE, replace(target, optional=True)),
        ]
        if min(part.slot for part in parts) < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        return Value(name, type.bare(), parts[0].slot, members=tuple(parts))
