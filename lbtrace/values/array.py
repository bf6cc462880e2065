"""Arrays, those of characters as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Member, NativeForm, Probe, Reader, Type, Value
from lbtrace.values.datum import (
    FAULT,
    NOT_READ,
    Datum,
    Form,
    Partial,
    Unreadable,
    column_of,
    json_of,
    lacks_of,
    whole,
)
from lbtrace.values.integer import fixed_width
from lbtrace.values.notation import text
from lbtrace.values.opaque import Opaque

UNKNOWN_MORE = -1
"""How many elements follow, where it is known only that some do."""

OPEN = "its length is unknown"


class Elements(Form, Struct, frozen=True):
    """The value of an array: its first elements, and how many ``more`` follow. It is indexed
    and iterated as a list of those that were read."""

    elements: tuple[Datum, ...]
    more: int = 0

    column_kind = "nested"

    def __getitem__(self, index: int) -> Datum:
        return self.elements[index]

    def __iter__(self) -> Iterator[Datum]:
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def text(self) -> str:
        shown = [text(element) for element in self.elements]
        return f"[{', '.join(shown + more_text(self.more))}]"

    def json(self) -> Any:
        return [json_of(element) for element in self.elements]

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.more:
            yield path, {"length": None if self.more < 0 else len(self.elements) + self.more}
        for n, element in enumerate(self.elements):
            yield from lacks_of(element, f"{path}/{n}")

    def column(self) -> Any:
        if self.more:
            raise Partial
        return [column_of(element) for element in self.elements]

    def expression(self) -> tuple[str, Sequence[Datum], int]:
        return "vector", self.elements, self.more


def more_text(more: int) -> list[str]:
    """Return what stands for elements that follow."""
    return ["…"] if more < 0 else [f"… {more:,} more"] if more else []


class Array(Type, Struct, frozen=True, tag="array"):
    """``count`` elements, one after the other. One that ``is_open`` has some that it does not
    count, and ends a record; of characters it is text."""

    name: str
    size: int
    element: Type
    count: int
    is_open: bool = False

    is_number = False

    @property
    def is_composed_alike(self) -> bool:  # type: ignore[override]
        """Whether it is: those of characters are shown as texts."""
        return not self.element.is_char()

    def native_form(self) -> NativeForm:
        return "characters" if self.size else ""

    def mark(self, number: int) -> tuple[str, Datum]:
        from lbtrace.values.string import text_mark  # imported here because few arrays hold text

        return text_mark(number)

    def bare(self) -> Array:
        return replace(self, element=Opaque(""))

    def with_parts(self, count: int) -> Array:
        return self if self.element.is_char() else self.bare()

    def is_text(self) -> bool:
        return self.is_open and self.element.is_char()

    def is_flat(self) -> bool:
        return self.element.is_flat() and not self.is_text()

    def is_open_ended(self) -> bool:
        return self.is_open

    @property
    def step(self) -> int:
        """Bytes from one element to the next."""
        return self.size // self.count if self.count else self.element.size

    def element_at(self, index: int) -> Member:
        return self.part_at(index)

    def part_at(self, index: int) -> Member:
        """Return the element that is fetched, whatever expressions name as one."""
        return Member("", self.element, index * self.step)

    def absent(self, reason: str) -> Datum:
        if self.is_open:
            return Unreadable(reason or OPEN)
        if not (self.size or reason):  # arrays may have no elements
            return Elements((), self.count)
        return Unreadable(reason)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        readers = [probe.reader(member) for member in value.members]
        count, is_text = self.count, self.element.is_char()

        def read(fetched: Fetched) -> Datum:
            elements = tuple([read(fetched) for read in readers])
            if is_text and (text := _join(elements, count)):
                return text
            return whole(Elements(elements, count - len(elements)), elements)

        return read

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        """Return the text in an array of characters: up to a NUL, or to its end."""
        slot, fault, start, size = value.slot, 1 << value.slot, value.offset, self.size
        in_memory = probe.is_piece(slot)

        def read(fetched: Fetched) -> Datum:
            if fetched.faults & fault:
                return FAULT
            if in_memory:
                data = bytes(fetched.pieces.get(slot, b"")[start : start + size])
            else:
                data = fetched.words[slot].to_bytes(8, "little")[start : start + size]
            if size and not data:
                return NOT_READ
            characters, nul, _ = data.partition(b"\0")
            known = len(characters) if nul or len(data) == size else None
            return string_of(characters, known)

        return read


def byte_array(size: int) -> Array:
    """Return the type of what only the size is known of."""
    return Array(f"uint8_t[{size}]", size, fixed_width(1, signed=False), size)


def _join(elements: Sequence[Datum], count: int) -> Datum | None:
    """Return the text of an array of ``count`` characters that were fetched one by one, as far as a
    NUL; None where one of them could not be read."""
    data = bytearray()
    for element in elements:
        if not isinstance(element, str):
            return None
        code = ord(element)
        if not code:
            break
        data.append(code & 0xFF)  # bytes that are no text are from U+DC80 on
    else:
        if len(elements) < count:
            return string_of(bytes(data), None)
    return string_of(bytes(data), len(data))


def string_of(data: bytes, length: int | None) -> Datum:
    """Return text of that ``length``, None where it is unknown."""
    from lbtrace.values.string import Text  # imported here because few arrays hold text

    return Text(data, length)
