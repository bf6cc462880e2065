"""``std::variant`` of libstdc++ and libc++ (``variant``)."""

from __future__ import annotations

from lbtrace.recognize import Inside, variants
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.choice import Choice
from lbtrace.values.datum import keys_of
from lbtrace.values.integer import Integer
from lbtrace.values.record import Record
from lbtrace.values.variants import Case

PARTS = (("_M_u", "_M_index"), ("__data", "__index"))
"""The union of the alternatives, and the index of the present one. The union comes first, unless
one of them has the same empty base as the variant."""

VALUELESS = "valueless_by_exception"
SHORT = {"basic_string": "string", "basic_string_view": "string_view"}

KindFetcher = variants.KindFetcher


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    alternatives = view.arguments
    found = next(filter(None, (find_named(view, names) for names in PARTS)), None)
    if found is None or not 0 < len(alternatives) <= variants.CASES:
        return None
    (at, _), (index_at, index) = found
    width = index.type.size
    if width not in (1, 2, 4, 8):
        return None
    names = keys_of(_short(each.written) for each in alternatives)
    cases = [
        Case(name, (n,), inside.part(each), at)
        for n, (name, each) in enumerate(zip(names, alternatives, strict=True))
    ]
    # The index of none is the greatest number: ``variant_npos``.
    cases.append(Case(VALUELESS, ((1 << 8 * width) - 1,), Record("", 0)))
    member = Member("index", Integer("unsigned long", width, False), index_at)
    return Choice(view.written, view.size, member, tuple(cases))


def _short(name: str) -> str:
    """The name of a type without the arguments of templates."""
    plain = name.split("<", maxsplit=1)[0]
    return SHORT.get(plain, plain)
