"""Names of Go functions as people type them: without package, receiver or type arguments.

``ServeHTTP``, ``App.ServeHTTP``, ``(*App).ServeHTTP`` and ``main.App.ServeHTTP`` all mean
``main.(*App).ServeHTTP``; ``Map`` and ``Map[int]`` mean ``main.Map[go.shape.int]``.
"""

from __future__ import annotations

import re

_POINTER = re.compile(r"\(\*([^()]*)\)")
_WORDS = re.compile(r"\w+")
_SHAPE = re.compile(r"\bgo\.shape\.")


def has_end(name: str, pattern: str) -> bool:
    """Return whether the function ``name`` ends with ``pattern``, at the start of one of its
    parts. A pattern without ``(*T)`` or ``[T]`` means functions with and without, as does
    ``[...]``."""
    pattern = pattern.replace("[...]", "").replace(", ", ",")
    if "[" not in pattern:
        name = _without_arguments(name)
    if "(*" not in pattern:
        name = _POINTER.sub(r"\1", name)
    name, pattern = (_SHAPE.sub("", each) for each in (name, pattern))
    return name == pattern or (bool(pattern) and name.endswith((f".{pattern}", f"/{pattern}")))


def is_of_runtime(name: str) -> bool:
    """Return whether a function is a part of Go's runtime, which every program has."""
    return name.startswith(("runtime.", "runtime/", "internal/runtime/"))


def last_word(pattern: str) -> str:
    """Return the last identifier of a name, outside of type arguments."""
    words = _WORDS.findall(_without_arguments(pattern))
    return words[-1] if words else ""


def _without_arguments(name: str) -> str:
    """``name`` without what stands in square brackets."""
    if "[" not in name:
        return name
    kept, depth = [], 0
    for piece in re.split(r"([\[\]])", name):
        depth += (piece == "[") - (piece == "]")
        if not depth and piece != "]":
            kept.append(piece)
    return "".join(kept)
