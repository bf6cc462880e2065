"""Records that keep their elements elsewhere: slices and vectors.

They are known by their members: ``std::vector`` of libstdc++
(``bits/stl_vector.h``) and libc++ (``vector``), rustc's slices, ``Vec``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lbtrace.elf import dies
from lbtrace.model import Character, Integer, String, Type, Vector

NESTING = 6
ENDS = (("_M_start", "_M_finish"), ("__begin_", "__end_"))
RUST_SLICE = ("data_ptr", "length")


def vector(
    die: Any, name: str, shape: Callable[[Any], Type], *, rust: bool
) -> Vector | String | None:
    """The record ``die`` as a vector, if it is one that is known. ``shape`` makes
    the type of its elements."""
    own = dies.text(die, "DW_AT_name")
    if rust:
        return _rust(die, own, name, shape)
    if not own.startswith("vector<") or own.startswith("vector<bool"):
        return None
    found = {dies.text(m, "DW_AT_name"): (at, m) for at, m in parts(die, 0, NESTING)}
    for begin, end in ENDS:
        if begin in found and end in found:
            element = dies.type_of(dies.bare(dies.type_of(found[begin][1])))
            return _made(die, name, element, shape, found[begin][0], end=found[end][0])
    return None


def _rust(die: Any, own: str, name: str, shape: Callable[[Any], Type]) -> Vector | String | None:
    if own.startswith(("&[", "&mut [")):
        found = {dies.text(m, "DW_AT_name"): (at, m) for at, m in parts(die, 0, 1)}
        if set(found) != set(RUST_SLICE):
            return None
        pointer, length = (found[part] for part in RUST_SLICE)
        element = dies.type_of(dies.bare(dies.type_of(pointer[1])))
        return _made(die, name, element, shape, pointer[0], length[0])
    if not own.startswith("Vec<"):
        return None
    element = next(
        (dies.type_of(c) for c in die.iter_children() if c.tag == "DW_TAG_template_type_parameter"),
        None,
    )
    at = length_at = -1
    for start, member in parts(die, 0, 2 * NESTING):
        bare = dies.bare(dies.type_of(member))
        if bare is not None and bare.tag in dies.POINTERS:
            at = start
        elif dies.text(member, "DW_AT_name") == "len":
            length_at = start
    if element is None or min(at, length_at) < 0:
        return None
    made = _made(die, name, element, shape, at, length_at)
    is_bytes = made is not None and isinstance(made.element, Integer | Character)
    if made is not None and is_bytes and made.step == 1 and "u8" in own:
        return String(name, made.size, made.pointer, made.length)
    return made


def _made(
    die: Any,
    name: str,
    element: Any,
    shape: Callable[[Any], Type],
    pointer: int,
    length: int = -1,
    end: int = -1,
) -> Vector | None:
    size = dies.number(die, "DW_AT_byte_size", 0)
    step = dies.size_of(element) if element is not None else 0
    if not step or not size:
        return None
    return Vector(name, size, shape(element), step, pointer, length, end)


def parts(die: Any, start: int, nesting: int) -> Iterator[tuple[int, Any]]:
    """The members of a record and of the records within, with their offsets."""
    for child in die.iter_children():
        if child.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
            continue
        if "DW_AT_external" in child.attributes or not dies.is_plain(child):
            continue
        at = start + dies.member_offset(child)
        yield at, child
        bare = dies.bare(dies.type_of(child))
        if nesting > 1 and bare is not None and bare.tag in dies.RECORDS:
            yield from parts(bare, at, nesting - 1)
