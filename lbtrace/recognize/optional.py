"""``std::optional`` of libstdc++ and libc++ (``optional``)."""

from __future__ import annotations

from lbtrace.model import Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher, PartsFetcher, Take
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.boolean import Boolean
from lbtrace.values.optional import Optional

PARTS = (("_M_value", "_M_engaged"), ("__val_", "__engaged_"))
"""The value, which comes first, and whether there is one."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    for names in PARTS:
        found = find_named(view, names)
        if found is None:
            continue
        (at, value), (engaged, truth) = found
        if at == 0:
            member = Member("has_value", Boolean("bool", truth.type.size), engaged)
            return Optional(view.written, view.size, inside.part(value.type), member)
    return None


class KindFetcher(PartsFetcher):
    """What is fetched: whether there is a value, and what would be it."""

    def of_parts(self, fetcher: Fetcher, name: str, type: Type, take: Take) -> Value:
        assert isinstance(type, Optional)
        engaged = take(type.engaged)
        if engaged.slot < 0:
            return Value(name, type.bare(), -1, engaged.reason)
        with fetcher.as_optional():
            value = take(Member("", type.value, 0))
        return Value(name, type.bare(), engaged.slot, members=(engaged, value))
