"""Types of Go as its compiler describes them in DWARF, as views.

Attributes are those of ``cmd/internal/dwarf``, kinds those of Go's package ``reflect``, layouts of
strings, slices, interfaces, maps and channels those of its ``runtime``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lbtrace.dwarf.attributes import DEPTH, number, text
from lbtrace.recognize.view import MemberView, PlainView

if TYPE_CHECKING:
    from lbtrace.recognize.view import Encoding, FormOfType

GO_KIND, GO_KEY, GO_ELEM = 0x2900, 0x2901, 0x2902
"""DW_AT_go_kind, DW_AT_go_key, DW_AT_go_elem."""

BOOL, INT, INT64, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = 1, 2, 6, 13, 14, 15, 16
ARRAY, CHAN, FUNC, INTERFACE, MAP, POINTER, SLICE, STRING, STRUCT = range(17, 26)

FORMS: dict[int, tuple[FormOfType, int]] = {
    ARRAY: ("array", 0),
    CHAN: ("map or channel", 8),
    FUNC: ("pointer", 8),
    INTERFACE: ("interface", 16),
    MAP: ("map or channel", 8),
    POINTER: ("pointer", 8),
    SLICE: ("slice", 24),
    STRING: ("string", 16),
    STRUCT: ("record", 0),
}
"""By kind: the form, and the size in bytes that all types of the kind have, else 0."""

TAGS: dict[str, tuple[FormOfType, int]] = {
    "DW_TAG_array_type": ("array", 0),
    "DW_TAG_base_type": ("base", 0),
    "DW_TAG_structure_type": ("record", 0),
}
"""The same of the rest, by tag; what is neither is a pointer."""

ENCODINGS: dict[int, Encoding] = {
    BOOL: "boolean",
    **dict.fromkeys(range(INT, INT64 + 1), "signed"),
    **dict.fromkeys((FLOAT32, FLOAT64), "float"),
    **dict.fromkeys((COMPLEX64, COMPLEX128), "complex"),
}
"""By kind; the rest is unsigned."""

NAMED = frozenset({MAP, CHAN, INTERFACE, FUNC})
"""Kinds whose names are at a typedef; those of others are at the type itself, too."""


class GoDieView(PlainView):
    """A type that ``die``, an entry of debug information, describes: a `View`."""

    __slots__ = ("_die", "_form", "_kind", "_size", "key", "name")

    language = "go"

    def __init__(self, die: Any) -> None:
        for _ in range(DEPTH):
            if die.tag != "DW_TAG_typedef" or _kind(die) in NAMED:
                break
            die = _target(die)
        else:
            raise ValueError("types refer to each other in a circle")
        self._die, self._kind, self.key = die, _kind(die), int(die.offset)
        self._form, size = FORMS.get(self._kind) or TAGS.get(die.tag, ("pointer", 8))
        self._size = size or number(die, "DW_AT_byte_size", 0)
        self.name = text(die, "DW_AT_name")

    @property
    def form(self) -> FormOfType:
        return self._form

    @property
    def written(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        return self._size

    @property
    def encoding(self) -> Encoding:
        return ENCODINGS.get(self._kind, "unsigned")

    @property
    def target(self) -> GoDieView | None:
        element = _own(self._die, GO_ELEM)
        if self._form == "slice" and element is not None:
            return GoDieView(self._die.get_DIE_from_attribute(element))
        points = self._kind in (POINTER, MAP) or self._die.tag == "DW_TAG_pointer_type"
        if not (self._form == "array" or points) or "DW_AT_type" not in self._die.attributes:
            return None
        return GoDieView(_target(self._die))

    @property
    def arguments(self) -> Sequence[GoDieView]:
        """Of a map: what its keys and its values are."""
        if self._kind != MAP:
            return ()
        own = [_own(self._die, code) for code in (GO_KEY, GO_ELEM)]
        return [GoDieView(self._die.get_DIE_from_attribute(name)) for name in own if name]

    @property
    def counts(self) -> Sequence[int | None]:
        target = self.target
        if target is not None and target.size:
            return (self._size // target.size,)
        ranges = [c for c in self._die.iter_children() if c.tag == "DW_TAG_subrange_type"]
        return (number(ranges[0], "DW_AT_count", 0) if ranges else 0,)

    @property
    def members(self) -> Iterator[MemberView]:
        die = self._die
        for _ in range(DEPTH):  # interfaces: as far as ``runtime.iface`` or ``eface``
            if self._form != "interface" or "DW_AT_type" not in die.attributes:
                break
            die = _target(die)
        for child in die.iter_children():
            if child.tag == "DW_TAG_member":
                offset = int(child.attributes["DW_AT_data_member_location"].value)
                yield MemberView(text(child, "DW_AT_name"), GoDieView(_target(child)), offset)


def _kind(die: Any) -> int:
    name = _own(die, GO_KIND)
    return int(die.attributes[name].value) if name is not None else -1


def _own(die: Any, code: int) -> Any:
    """What the reader of ``die`` calls an attribute of Go's own, pyelftools or
    `lbtrace.dwarf.reader`; None where there is none."""
    return next((name for name in (code, f"DW_AT_{code:#x}") if name in die.attributes), None)


def _target(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type")
