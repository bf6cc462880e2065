"""The types of C that a cast may name."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.model import Boolean, Character, Float, Integer, Type
from lbtrace.values.integer import fixed_width

_FIXED: dict[str, Type] = {
    **{t.name: t for t in (fixed_width(n, signed=True) for n in (1, 2, 4, 8))},
    **{t.name: t for t in (fixed_width(n, signed=False) for n in (1, 2, 4, 8))},
    "size_t": Integer("size_t", 8, False),
    "ssize_t": Integer("ssize_t", 8, True),
    "uintptr_t": Integer("uintptr_t", 8, False),
    "intptr_t": Integer("intptr_t", 8, True),
    "bool": Boolean("bool", 1),
    "_Bool": Boolean("_Bool", 1),
    "float": Float("float", 4),
    "double": Float("double", 8),
}
_INTEGER_WORDS = frozenset({"signed", "unsigned", "char", "short", "int", "long"})
QUALIFIERS = frozenset({"const", "volatile"})
TYPE_WORDS = _INTEGER_WORDS | QUALIFIERS | {"void", *_FIXED}


def find_type(words: Sequence[str]) -> Type | None:
    """Return the type that words such as ``unsigned long`` name; None where they name none."""
    if len(words) == 1 and words[0] in _FIXED:
        return _FIXED[words[0]]
    return _integer(words) if words and set(words) <= _INTEGER_WORDS else None


def _integer(words: Sequence[str]) -> Type | None:
    signed = "unsigned" not in words
    rest = [word for word in words if word not in ("signed", "unsigned", "int")]
    size = {"": 4, "char": 1, "short": 2, "long": 8, "long long": 8}.get(" ".join(rest))
    if size is None:
        return None
    name = " ".join(words)
    if rest == ["char"] and len(words) == 1:
        return Character(name, 1, True)
    return Integer(name, size, signed)
