"""``HashMap`` and ``HashSet`` of Rust, std's and hashbrown's own (``hashbrown::raw``, since 0.8);
``BTreeMap`` and ``BTreeSet`` (``alloc::collections::btree``).

A table has the address of its control bytes, one for each bucket, with the top bit clear where the
bucket is in use, and behind them empty ones up to 8 at least; the buckets lie below, the first at
the end. Of a tree, the root is read where it is the only node: a leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.recognize import Inside
from lbtrace.recognize.view import View, find_named, find_parts
from lbtrace.values import Type
from lbtrace.values.go_map import GoMap
from lbtrace.values.record import Record

NESTING = 4
"""Records within records down to a table: ``HashSet.base.map.table``."""

FULL = 0x7F
"""The most that a control byte of a bucket in use is."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    return _table(view, inside) if view.name.startswith("Hash") else _tree(view, inside)


def _table(view: View, inside: Inside) -> GoMap | None:
    tables = (each for each in find_parts(view, 0, NESTING) if each[1].type.name[:9] == "RawTable<")
    at, table = next(tables, (0, None))
    held = table.type.arguments if table is not None else ()
    if table is None or not held:
        return None
    found = {part.name: at + start for start, part in find_parts(table.type, 0, 2)}
    if not found.keys() >= {"bucket_mask", "ctrl", "items"} or "data" in found:
        return None  # before hashbrown 0.8
    pair = [part for part in held[0].members if part.placed]
    if [part.name for part in pair] != ["__0", "__1"]:
        return None
    size = held[0].size
    slots = [(part.type.size, part.offset - size, -size) for part in pair]
    return _made(view, inside, slots, found["items"], found["ctrl"])


def _tree(view: View, inside: Inside) -> GoMap | None:
    found = find_named(view, ("root", "length"))
    variants = found[0][1].type.variants if found else None
    if found is None or variants is None:
        return None
    (start, _), (length, _) = found
    some = next((case for name, _, case in variants.cases if name == "Some"), None)
    root = find_named(some, ("height", "node")) if some else None
    if root is None:
        return None
    (height, _), (node_at, node) = root
    leads = [part.type.target for _, part in find_parts(node.type, 0, 1)]
    leaf = leads[0] if len(leads) == 1 else None
    arrays = find_named(leaf, ("keys", "vals")) if leaf is not None else None
    if arrays is None:
        return None
    slots: list[tuple[int, int, int]] = []
    for at, array in arrays:
        size = array.type.target.size if array.type.target is not None else -1
        slots.append((size, at, size))
    return _made(view, inside, slots, length, start + node_at, start + height)


def _made(
    view: View,
    inside: Inside,
    slots: Sequence[tuple[int, int, int]],
    length: int,
    group: int,
    height: int = -1,
) -> GoMap | None:
    """The type, if the ``slots`` of keys and values, each with its size, its offset and the step
    to the next one, are those of what the type was made for."""
    is_map = view.name.split("<", maxsplit=1)[0].endswith("Map")
    held = view.arguments[: 1 + is_map]
    sizes = [size for size, *_ in slots]
    if [each.size for each in held] != sizes[: 1 + is_map] or not slots[0][2]:
        return None
    key, value = inside.element(held[0]), inside.element(held[1]) if is_map else Record("", 0)
    places = (group, height, 0, FULL, *slots[0][1:], *slots[1][1:])
    how = {"fills": height >= 0, "is_set": not is_map}
    return GoMap(view.written, key, value, *places, view.size, length, **how)
