"""Pointers of Rust to trait objects: the address of a value, and of a table of functions."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher, PartsFetcher, Take, compose
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.map import COUNT
from lbtrace.values.pointer import TABLE
from lbtrace.values.trait_object import TraitObject

PARTS = ["pointer", "vtable"]


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    parts = [part for part in view.members if part.placed and part.type.form == "pointer"]
    if [part.name for part in parts] != PARTS:
        return None
    return TraitObject(view.written, view.size, *(part.offset for part in parts))


class KindFetcher(PartsFetcher):
    """What is fetched: both addresses."""

    def of_parts(self, fetcher: Fetcher, name: str, type: Type, take: Take) -> Value:
        pointer, table = type.named_parts()
        held = take(pointer), take(replace(table, name=TABLE, type=COUNT))
        return compose(name, type, held)
