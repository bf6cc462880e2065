"""Pointers of Rust to trait objects: ``&dyn Trait``, ``Box<dyn Trait>``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.pointer import ADDRESS, with_facts


class TraitObject(Type, Struct, frozen=True, tag="trait_object"):
    """A record with the address of a value at ``pointer``, and at ``table`` that of the table of
    functions by which the type of the value is known."""

    name: str
    size: int
    pointer: int
    table: int

    is_composed_alike = True

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("pointer", ADDRESS, self.pointer), Member("vtable", ADDRESS, self.table))

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The members of a value are the two addresses."""
        pointer, class_of = probe.reader(value.members[0]), probe.class_reader(value.members[1])

        def read(fetched: Fetched) -> Datum:
            where, name = pointer(fetched), class_of(fetched)
            return with_facts(where, **{"class": name}) if name else where

        return read
