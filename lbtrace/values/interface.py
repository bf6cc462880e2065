"""Interface values of Go, errors among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.boolean import Boolean
from lbtrace.values.datum import Argument, Datum, Unreadable
from lbtrace.values.enumeration import Constant
from lbtrace.values.float import Float
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import NIL, Address, Pointer
from lbtrace.values.record import Fields

MESSAGE_FIRST = frozenset({"*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors"})
"""Types of errors that begin with their message."""

INT, UINT, FLOAT = (
    dict(enumerate(sizes, first))
    for first, sizes in ((2, (8, 1, 2, 4, 8)), (7, (8, 1, 2, 4, 8, 8)), (13, (4, 8)))
)
"""Kinds of numbers (Go's ``reflect.Kind``), and their sizes."""

BOOL, STRING = 1, 24


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
        dynamic, *rest = (probe.reader(member) for member in value.members)
        parts = dict(zip([member.name for member in value.members[1:]], rest, strict=True))
        held = {member.name: member for member in value.members}.get("value")
        read_by_kind = _held_readers(held, parts, probe) if held is not None else {}
        names, name_of_type = probe.names, self.name
        shown = [(name, read) for name, read in parts.items() if name in ("message", "data")]

        def read(fetched: Fetched) -> Datum:
            where = own(fetched)
            if not isinstance(where, Address):
                return where
            if not where:
                return Constant("nil")
            number = dynamic(fetched)
            if not isinstance(number, int):
                return number
            name, kind = names.get(number, ("", 0))
            fields = [Argument("type", Constant(name) if name else Unreadable("an unknown type"))]
            if name in MESSAGE_FIRST and "text" in parts:
                fields.append(Argument("message", parts["text"](fetched)))
            elif kind in read_by_kind:
                fields.append(Argument("value", read_by_kind[kind](fetched)))
            else:
                for part, read in shown:
                    if part != "message" or name in MESSAGE_FIRST:
                        fields.append(Argument(part, read(fetched)))
            return Fields(name_of_type, tuple(fields))

        return read


def _held_readers(held: Value, parts: Mapping[str, Reader], probe: Probe) -> dict[int, Reader]:
    """What reads the value that an interface leads to, by its kind: eight bytes, or text."""
    types: dict[int, Type] = {BOOL: Boolean("bool", 1)}
    types |= {kind: Integer("", size, True) for kind, size in INT.items()}
    types |= {kind: Integer("", size, False) for kind, size in UINT.items()}
    types |= {kind: Float("", size) for kind, size in FLOAT.items()}
    readers = {kind: probe.reader(replace(held, type=type)) for kind, type in types.items()}
    return readers | ({STRING: parts["text"]} if "text" in parts else {})
