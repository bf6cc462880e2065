"""What to fetch of Go's own kinds of values: maps, channels, slices, interfaces.

In types they are the records that Go's runtime makes of them; here it is
decided what of them is shown.
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.arch.fetching import DEEP_ELEMENTS, Fetcher
from lbtrace.arch.places import Place, bare, dereferenced, moved
from lbtrace.arch.slots import NO_SLOT
from lbtrace.model import (
    Array,
    Boolean,
    Character,
    Fetch,
    Float,
    Integer,
    Interface,
    Member,
    Pointer,
    Record,
    Slice,
    String,
    Type,
    Value,
)

ELEMENTS = 8
"""Elements of a slice that are shown."""

PIECE = 120
"""Bytes of elements that are fetched."""

TEXT = 64
"""Bytes of an error's message that are fetched."""

HASH, TYPE = 16, 8
"""Offsets of a type's hash in ``abi.Type``, and of the dynamic type in ``abi.ITab``. (That
has the hash, too, but not where it was made at run time: ``runtime.getitab``.)"""

ANY, METHODS = "*runtime._type", "*runtime.itab"
"""What the first word of an interface points to: the type, or a method table."""

FLAT = (Integer, Boolean, Character, Float, Pointer, Array)
"""Types whose values are what lies in their bytes."""


def is_counted(type: Type) -> bool:
    """Whether this is a map or channel, which is shown by its number of elements."""
    return isinstance(type, Pointer) and type.name.startswith(("map[", "chan ", "<-chan "))


def is_slice(type: Type) -> bool:
    """Whether this is a slice."""
    return isinstance(type, Record) and [m.name for m in type.members] == ["array", "len", "cap"]


def is_interface(type: Type) -> bool:
    """Whether this is an interface value."""
    return (
        isinstance(type, Record)
        and len(type.members) == 2
        and getattr(type.members[0].type, "name", "") in (ANY, METHODS)
    )


def counted(fetcher: Fetcher, name: str, type: Type, word: Fetch) -> Value:
    """A map or channel. ``word`` fetches the pointer to its header."""
    assert isinstance(type, Pointer)
    assert isinstance(type.target, Record)
    (member,) = type.target.members
    header, count = fetcher.slot(word), fetcher.slot(replace(word, read="integer"))
    if count < 0:
        return Value(name, bare(type), header, "" if header >= 0 else NO_SLOT)
    length = Value(member.name, member.type, count)
    inside = Value("", bare(type.target), count, members=(length,))
    return Value(name, bare(type), header, members=(inside,))


def sliced(fetcher: Fetcher, name: str, type: Type, words: tuple[Fetch, ...]) -> Value:
    """A slice. ``words`` fetch its address, length and capacity."""
    assert isinstance(type, Record)
    address, length, capacity = words
    array = type.members[0].type
    element = array.target if isinstance(array, Pointer) else None
    counts = [
        _taken(fetcher, m, fetch)
        for m, fetch in zip(type.members[1:], (length, capacity), strict=True)
    ]
    slot = counts[0].slot
    if slot < 0:
        return Value(name, bare(type), -1, NO_SLOT)
    size = getattr(element, "size", 0)
    first: tuple[Value, ...] = ()
    if element is not None and is_flat(element) and 0 < size <= PIECE:
        count = min(ELEMENTS, PIECE // size) if size > 1 else PIECE
        piece = fetcher.slot(
            replace(address, read="bytes", limit=count * size, length_from=slot, scale=size)
        )
        if piece >= 0 and size == 1 and isinstance(element, Integer) and not element.signed:
            first = (Value("", String(type.name), piece),)
        elif piece >= 0:
            first = tuple(
                _in_piece("", element, piece, n * size) for n in range(min(count, ELEMENTS))
            )
    elif element is not None:
        first = _deep(fetcher, element, address)
    shown = Slice(type.name, replace(array, target=None) if isinstance(array, Pointer) else array)
    return Value(name, shown, slot, members=(*counts, *first))


def _deep(fetcher: Fetcher, element: Type, address: Fetch) -> tuple[Value, ...]:
    """The first of those elements at ``address`` that hold text, if they can be spared."""
    if not _is_textual(element):
        return ()
    size = getattr(element, "size", 0)
    made = fetcher.few(
        DEEP_ELEMENTS,
        lambda own, n: own.value("", element, Place(memory=moved(address, n * size))),
    )
    return tuple(made) if all(value.slot >= 0 for value in made) else ()


def _is_textual(type: Type) -> bool:
    """Whether this is a string, or a record of such and of flat values."""
    if not isinstance(type, Record) or is_slice(type) or is_interface(type):
        return isinstance(type, String)
    return all(is_flat(m.type) or _is_textual(m.type) for m in type.members)


def interface(fetcher: Fetcher, name: str, type: Type, words: tuple[Fetch, ...]) -> Value:
    """An interface value: the hash of its dynamic type, and the message of an error.

    ``words`` fetch what tells the type, which is nil where the interface is, and the value.
    """
    assert isinstance(type, Record)
    tell, data = words
    static = getattr(type.members[0].type, "name", "") == ANY
    described = tell if static else dereferenced(tell, TYPE)
    own = fetcher.slot(tell)
    kind = fetcher.slot(replace(moved(described, HASH), read="integer", size=4))
    if kind < 0:
        return Value(name, bare(type), -1, NO_SLOT)
    members = [Value("type", Integer("uint32", 4, False), kind)]
    if type.name == "error":
        # errors.errorString and the like begin with their message.
        length = fetcher.slot(replace(moved(data, 8), read="integer"))
        text = -1
        if length >= 0:
            start = dereferenced(data)
            text = fetcher.slot(
                replace(start, read="bytes", limit=TEXT, length_from=length, optional=True)
            )
        if text >= 0:
            members.append(Value("message", String("string"), text))
    elif (value := fetcher.slot(data)) >= 0:
        members.append(Value("data", Pointer("unsafe.Pointer"), value))
    if len(members) < 2:
        members.append(Value("data", Pointer("unsafe.Pointer"), -1, NO_SLOT))
    return Value(name, Interface(type.name, static), own, members=tuple(members))


def _taken(fetcher: Fetcher, member: Member, fetch: Fetch) -> Value:
    slot = fetcher.slot(fetch)
    return Value(member.name, member.type, slot, "" if slot >= 0 else NO_SLOT)


def is_flat(type: Type) -> bool:
    """Whether a value of this type is what lies in its bytes."""
    if isinstance(type, Record):
        return not is_interface(type) and all(is_flat(m.type) for m in type.members)
    if isinstance(type, Array) and not is_flat(type.element):
        return False
    return isinstance(type, FLAT) and not is_counted(type)


def _in_piece(name: str, type: Type, piece: int, offset: int) -> Value:
    """A value ``offset`` bytes into the bytes that slot ``piece`` holds."""
    if isinstance(type, Record) and type.members:
        members = [_in_piece(m.name, m.type, piece, offset + m.offset) for m in type.members]
        return Value(name, bare(type), piece, members=tuple(members))
    if isinstance(type, Array) and type.count:
        step = type.size // type.count
        elements = [
            _in_piece("", type.element, piece, offset + n * step)
            for n in range(min(type.count, ELEMENTS))
        ]
        return Value(name, type, piece, members=tuple(elements))
    return Value(name, bare(type), piece, offset=offset)
