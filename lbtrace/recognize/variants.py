"""Enumerations of Rust whose variants carry values. Source: DWARF 5, section 5.7.10."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import MEMBERS, Fetcher, PartsFetcher, Take
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.integer import Integer
from lbtrace.values.opaque import Opaque
from lbtrace.values.record import Record
from lbtrace.values.variants import Case, Variants

CASES = 24
"""Variants of an enumeration that are looked into."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    part = view.variants
    if part is None:
        return None
    unknown = Opaque(view.written)
    if part.discriminant >= 0 and part.width not in (1, 2, 4, 8, 16):
        return unknown
    if (
        not part.whole
        or not part.cases
        or len(part.cases) > CASES
        or not (view.size or part.discriminant < 0)
    ):
        return unknown
    mask = (1 << 8 * part.width) - 1
    discriminant = None
    if part.discriminant >= 0:
        discriminant = Member("", Integer("", part.width, False), part.discriminant)
    # What a variant carries is one record with the enumeration, to its users.
    cases = tuple(
        Case(name, () if number is None else (number & mask,), inside.alternative(carried))
        for name, number, carried in part.cases
    )
    return Variants(view.written, view.size, discriminant, cases)


class KindFetcher(PartsFetcher):
    """What is fetched of a value of several variants: the discriminant, and all of them."""

    def of_parts(self, fetcher: Fetcher, name: str, type: Type, take: Take) -> Value:
        assert isinstance(type, Variants)
        members = [take(type.discriminant)] if type.discriminant else []
        if members and members[0].slot < 0:
            return Value(name, type.bare(), -1, members[0].reason)
        with fetcher.as_optional():
            members += [
                _carried(fetcher, take(Member(c.name, c.record, c.offset)), c) for c in type.cases
            ]
        slot = next((m.slot for m in members if m.slot >= 0), -1)
        return Value(name, type.bare(), slot, members=tuple(members))


def _carried(fetcher: Fetcher, value: Value, case: Case) -> Value:
    """A case with its members, even where none can be read."""
    if not isinstance(case.record, Record):
        return replace(value, type=case.record.bare(), members=(replace(value, name=""),))
    if value.members:
        return value
    own = case.record.members[:MEMBERS]
    members = tuple(fetcher.in_no_room(m.name, m.type, value.reason) for m in own)
    more = case.record.more + len(case.record.members) - len(own)
    return replace(value, type=replace(case.record.bare(), more=more), members=members)
