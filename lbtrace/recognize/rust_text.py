"""Text of Rust: ``&str``, ``&Path``, ``Box<str>``, slices of bytes, ``String``, ``PathBuf``."""

from __future__ import annotations

from collections.abc import Iterator

from lbtrace.recognize import Inside
from lbtrace.recognize.view import MemberView, View
from lbtrace.values import Type
from lbtrace.values.string import String

SLICE = ("data_ptr", "length")
OWNED = {"String": "vec", "OsString": "inner", "PathBuf": "inner"}
"""Types that own a vector with the text, and the member that leads to it."""

DEEP = 16
"""Records within records in which the parts of a ``String`` are looked for."""

WORD = 8


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    if view.name not in OWNED:
        offsets = {part.name: part.offset for part in view.members if part.placed}
        if not offsets.keys() >= {*SLICE}:
            return None
        pointer, length = (offsets[name] for name in SLICE)
        return String(view.written, view.size, pointer, length)
    if [part.name for part in view.members] != [OWNED[view.name]]:
        return None
    pointer = length = -1
    for at, part in _wide_parts(view, 0, DEEP):
        if part.type.form == "pointer":
            pointer = at
        elif part.name == "len":
            length = at
    if min(pointer, length) < 0:
        return None
    return String(view.written, view.size, pointer, length)


def _wide_parts(view: View, start: int, nesting: int) -> Iterator[tuple[int, MemberView]]:
    """The parts of a record and of those within that may hold a word: somewhere below ``vec``
    lie ``len`` and a pointer."""
    for part in view.members:
        if not part.placed or not nesting:
            continue
        at = start + part.offset
        yield at, part
        if part.name != "len" and part.type.form == "record" and part.type.size >= WORD:
            yield from _wide_parts(part.type, at, nesting - 1)
