"""Structs, unions, classes and tuples."""

from __future__ import annotations

from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import PartsFetcher
from lbtrace.recognize.view import MemberView, View
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.record import Record

KindFetcher = PartsFetcher


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    name, size = view.written, view.size
    members: list[Member] = []
    more = 0
    for part in view.members:
        if not part.placed:  # a variant part, a virtual base: not a fixed layout
            return None
        if len(members) == inside.most_members or inside.is_exhausted:
            more += 1
            continue
        member = make_member(part, inside)
        if not (part.is_base and _is_empty(member.type) and _is_memberless(part.type)):
            members.append(member)
    if view.language != "rust" and size and not more and all(_is_empty(m.type) for m in members):
        return Record(name, 0, tuple(members))  # C++ gives it a byte that holds nothing
    if not view.is_sized:
        return None  # only declared
    return Record(name, size, tuple(members), more)


def _is_empty(type: Type) -> bool:
    return isinstance(type, Record) and not type.size


def _is_memberless(view: View) -> bool:
    """Whether a class without size has not even members without size, nor have its bases."""
    return all(part.is_base and _is_memberless(part.type) for part in view.members)


def make_member(part: MemberView, inside: Inside) -> Member:
    """Return a member of a record."""
    name = part.name
    if part.unknown:
        from lbtrace.values.opaque import Opaque  # imported here because it is rare

        return Member(name, Opaque(part.type.written, part.unknown), part.offset)
    type = inside.part(part.type)
    if part.is_base:
        name = type.name
    if not part.bits:
        return Member(name, type, part.offset)
    return Member(name, type, part.first_bit // 8, part.first_bit % 8, part.bits)
