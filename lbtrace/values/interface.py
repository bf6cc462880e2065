"""Interface values of Go, errors among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from errno import errorcode

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.boolean import Boolean
from lbtrace.values.datum import NOT_READ, Argument, Datum, Unreadable
from lbtrace.values.enumeration import Constant
from lbtrace.values.float import Float
from lbtrace.values.go_bounds import BOUNDS_ERROR, message
from lbtrace.values.integer import Integer
from lbtrace.values.notation import text as value_text
from lbtrace.values.pointer import NIL, Address, Pointer
from lbtrace.values.record import Fields
from lbtrace.values.slice import Slice

MESSAGE_FIRST = frozenset({"*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors"})
"""Types of errors that begin with their message."""

INT, UINT, FLOAT = (
    dict(enumerate(sizes, first))
    for first, sizes in ((2, (8, 1, 2, 4, 8)), (7, (8, 1, 2, 4, 8, 8)), (13, (4, 8)))
)
"""Kinds of numbers (Go's ``reflect.Kind``), and their sizes."""

BOOL, STRING = 1, 24

ERROR = "error"

ERRNO = "syscall.Errno"

TYPES = frozenset({"*abi.Type", "*runtime._type"})
"""Pointers to types."""


class Dynamic(Fields, frozen=True):
    """What an interface holds: its ``type``, and its ``message``, ``value`` or ``data``."""

    def text(self) -> str:
        kind, *rest = self.fields
        if not isinstance(kind.value, Constant):
            return super().text()
        name = kind.value.text()
        if not rest:
            return name
        (what, value), *names = [(each.name, each.value) for each in rest]
        if isinstance(value, Fields):
            return f"{name}{value.text()}"
        inside = value_text(value)
        if what == "data" and not name.startswith("*"):
            return f"{name}{{data={inside}}}"
        return " ".join([f"{name}({inside})", *(value_text(named) for _, named in names)])


class Interface(Type, Struct, frozen=True, tag="interface"):
    """An interface value of Go: the hash of its dynamic type, and the value.

    ``static`` says that there is no method table in between (``any``).
    """

    name: str
    static: bool
    size: int = 16

    names_types = True

    def named_parts(self) -> tuple[Member, ...]:
        first = "*runtime._type" if self.static else "*runtime.itab"
        data = Pointer("unsafe.Pointer")
        return (Member("type", Pointer(first), 0), Member("data", data, 8))

    def named_states(self) -> Sequence[tuple[str, Member, int]]:
        return [(NIL, self.named_parts()[0], 0)]

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return the name of its dynamic type, and what is known of its value.

        A pointer that is nil where the interface is leads to the hash of the type.
        """
        own = probe.reader(Value("", Pointer(""), value.slot, offset=value.offset))
        dynamic, *others = value.members
        hash = probe.reader(dynamic)
        parts = {member.name: member for member in others}
        held = _HeldReaders(parts, probe)
        names, name_of_type = probe.names, self.name

        def read(fetched: Fetched) -> Datum:
            where = own(fetched)
            if not isinstance(where, Address):
                return where
            if not where:
                return Constant("nil")
            number = hash(fetched)
            if not isinstance(number, int):
                return number
            name, kind = names.get(number, ("", 0))
            shown = Constant(name) if name else Unreadable("an unknown type")
            fields = [Argument("type", shown)]
            if name in MESSAGE_FIRST and "text" in parts:
                fields.append(Argument("message", held.text(fetched)))
            elif (read := held.find(number, kind)) is not None:
                # A pointer that is nil makes no interface nil.
                found = Constant(NIL) if held.is_nil(fetched) else read(fetched)
                if name == BOUNDS_ERROR and (said := message(found)):
                    fields.append(Argument("message", said))
                elif found != NOT_READ:
                    fields.append(Argument("value", found))
                if name == ERRNO and isinstance(found, int) and found in errorcode:
                    fields.append(Argument("name", Constant(errorcode[found])))
            elif "data" in parts:
                fields.append(Argument("data", held.data(fetched)))
            return Dynamic(name_of_type, tuple(fields))

        return read


class TypeName(Type, Struct, frozen=True):
    """A pointer to a type of Go, of which the hash was fetched: shown as the type's name."""

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        """Return the name."""
        hash = probe.reader(replace(value, name="", type=Integer("uint32", 4, False)))

        def read(fetched: Fetched) -> Datum:
            number = hash(fetched)
            if not isinstance(number, int):
                return Constant(NIL)  # as of what an interface holds that is nil
            return Constant(probe.names.get(number, ("?", 0))[0])

        return read


PANIC_VALUE = Interface(ERROR, static=True)
"""What a goroutine panics with: an ``any`` that is read as an error is."""


class _HeldReaders:
    """Makes what reads the value that an interface leads to, of which ``parts`` were fetched."""

    def __init__(self, parts: Mapping[str, Value], probe: Probe) -> None:
        self._parts, self._probe = parts, probe
        self._made: dict[int, Reader | None] = {}
        self._by_kind = self._number_readers()
        if "text" in parts:
            self.text = self._by_kind[STRING] = probe.reader(parts["text"])
        if "data" in parts:
            self.data = probe.reader(parts["data"])

    def find(self, hash: int, kind: int) -> Reader | None:
        """Return what reads a value of the type with this hash and kind; None where it was not
        fetched."""
        if hash not in self._made:
            held = self._probe.held.get(hash) if "text" in self._parts else None
            if held is None:
                self._made[hash] = self._by_kind.get(kind)
            else:
                self._made[hash] = self._probe.reader(self._place("", held, 0))
        return self._made[hash]

    def is_nil(self, fetched: Fetched) -> bool:
        """Return whether the interface holds a pointer that is nil: what cannot be read is at 0."""
        slot = self._parts["value"].slot if "value" in self._parts else -1
        if slot < 0 or not self._probe.is_piece(slot):
            return False
        return bool(fetched.faults >> slot & 1) and not fetched.words[slot]

    def _number_readers(self) -> dict[int, Reader]:
        """By kind: a number, which lies in the first bytes of what was fetched."""
        held = self._parts.get("value")
        if held is None:
            return {}
        types: dict[int, Type] = {BOOL: Boolean("bool", 1)}
        types |= {kind: Integer("", size, True) for kind, size in INT.items()}
        types |= {kind: Integer("", size, False) for kind, size in UINT.items()}
        types |= {kind: Float("", size) for kind, size in FLOAT.items()}
        return {k: self._probe.reader(replace(held, type=type)) for k, type in types.items()}

    def _place(self, name: str, type: Type, offset: int) -> Value:
        """A part of a struct, at an offset: in the bytes that were fetched, or led to by them."""
        what = "text" if type.is_text() else ERROR if isinstance(type, Interface) else ""
        bytes, unread = self._parts.get("value"), Value(name, type.bare(), -1, NOT_READ.reason)
        if what:
            found = self._parts.get(place_name(what, offset))
            return replace(found, name=name) if found else unread
        named = self._parts.get(place_name("type", offset)) if type.name in TYPES else None
        if named and self._probe.is_piece(bytes.slot if bytes else -1):
            return replace(named, name=name, type=TypeName())
        if isinstance(type, Slice):
            parts = [*type.named_parts()][1:]
        elif isinstance(type, Pointer):
            type, parts = Pointer(type.name, null=NIL), []
        else:
            parts = [*type.named_parts()]
        if parts:
            placed = tuple(self._place(m.name, m.type, offset + m.offset) for m in parts)
            slot = next((each.slot for each in placed if each.slot >= 0), -1)
            return Value(name, type.bare(), slot, members=placed) if slot >= 0 else unread
        if bytes is None or not type.size or offset + type.size > bytes.type.size:
            return unread
        return replace(bytes, name=name, type=type, offset=offset)


def place_name(what: str, offset: int) -> str:
    """Return what the part of a value is called that is fetched for a text or an error that may be
    at an ``offset``."""
    return f"{what} at {offset}" if offset else what
