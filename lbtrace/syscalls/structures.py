"""Structures and other values that lie where arguments of system calls lead: of what type they
are, and what is fetched of them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from msgspec.structs import replace

from lbtrace.abi.locations import dereferenced, moved
from lbtrace.abi.system_calls import ARGUMENTS, RESULT
from lbtrace.model import Fetch, Type, Value
from lbtrace.model.wire_limits import FETCHES, LARGE_CHUNK
from lbtrace.recognize.fetcher import ELEMENTS
from lbtrace.recognize.slots import Slots
from lbtrace.syscalls import Call, Led, Part, Table
from lbtrace.values.array import Array
from lbtrace.values.base import Member
from lbtrace.values.bit_numbers import BitNumbers
from lbtrace.values.by_argument import ByArgument, Case
from lbtrace.values.character import Character
from lbtrace.values.directory_entries import DirectoryEntries
from lbtrace.values.first_of import FirstOf
from lbtrace.values.flags import Flags
from lbtrace.values.integer import Integer, fixed_width
from lbtrace.values.mode import Mode
from lbtrace.values.outcome import ERRORS
from lbtrace.values.packed import Packed
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record
from lbtrace.values.signal_set import SignalSet
from lbtrace.values.socket_address import LONGEST, SocketAddress
from lbtrace.values.string import String
from lbtrace.values.text_vector import TextVector
from lbtrace.values.wait_status import WaitStatus
from lbtrace.values.word import Word

INT, SIZE = Integer("int", 4, True), Integer("size_t", 8, False)

WRITTEN: dict[str, Type] = {
    "address": Pointer("void *"),
    "limit": Flags("rlim_t", 8, field=-1, values=((-1, "RLIM_INFINITY"),)),
    "signals": SignalSet(),
    "mask": Pointer("__u32", 4),
    "word": Word("unsigned long", 8, False),
}
"""How members are written besides numbers, modes, texts and groups of constants."""

NUMBERS: dict[str, Type] = {
    "int": INT,
    "error": Flags("int", 4, signed=True, field=-1, values=tuple(ERRORS.items())),
    "wait": WaitStatus(),
    "signals": SignalSet(),
}
"""Kinds of values that are one number."""

NAME = 15
"""Bytes of the name of a thread (``TASK_COMM_LEN``), without the NUL."""

BITS = 120
"""Bytes that are fetched of bits, which is less than a small chunk of an event."""

BUFFERS = 3
"""Buffers of a vector of which the texts are shown."""


class Leading(Slots):
    """Finds where the arguments of a call lead, at one of its ends: when it begins, or when it has
    ``ended`` and the register of the result is lost. ``limit`` is for texts, in bytes."""

    def __init__(
        self,
        machine: str,
        name: str,
        table: Table,
        limit: int,
        kept: Sequence[Fetch],
        *,
        ended: bool,
    ) -> None:
        super().__init__(FETCHES, kept=kept)
        self._registers, self._result = ARGUMENTS[machine], RESULT[machine]
        self._mark = "" if ended else "<"
        self._ended = ended
        self._name = name
        self._table = table
        self._text_limit = limit
        self.call: Call = table.calls[name]

    def rows(self, number: int) -> tuple[Led, ...]:
        """Return what lies where the argument of a number leads, if that is known there."""
        if self._ended and self._registers[number] == self._result:
            return ()
        return self._table.filled.get(
            f"{self._mark}{self._name}.{self.call.parameters[number].name}", ()
        )

    def value(self, number: int, name: str, own: Value | None = None) -> Value | None:
        """Return what the argument of a number leads to, as a value with this ``name``; None where
        that is not known. Where other arguments decide whether it leads anywhere, ``own`` is what
        it is else."""
        rows = self.rows(number)
        if not rows:
            return None
        start = self._argument(number)
        if not rows[0].by:
            return self._led(rows[0], name, number, start)
        return self._by_argument(rows, name, number, own)

    def filled(self, shown: Container[int]) -> Iterator[Value]:
        """Yield what the call has filled where the arguments lead that are ``shown``, by their
        numbers: structures, and addresses of sockets."""
        for number, parameter in enumerate(self.call.parameters):
            if number not in shown:
                continue
            made = self.value(number, parameter.name) or self._address(number, parameter.name)
            if made is not None:
                yield made

    def _address(self, number: int, name: str) -> Value | None:
        """The address of a socket, which the next argument leads to the length of."""
        types = [parameter.type for parameter in self.call.parameters[number : number + 2]]
        lost = self._registers[number] == self._result
        if types != ["struct sockaddr *", "int *"] or lost:
            return None
        counted = self._count(f"*{self.call.parameters[number + 1].name}")
        start = replace(self._argument(number), read="bytes", limit=LONGEST, length_from=counted)
        return Value(name, SocketAddress(), self.slot(start))

    def _by_argument(
        self, rows: Sequence[Led], name: str, number: int, own: Value | None
    ) -> Value | None:
        """What an argument is that leads somewhere only where others say so."""
        type = self.call.parameters[number].type
        longest = max((self._fetch(row, number) for row in rows), key=lambda fetch: fetch.limit)
        memory = Value("", Pointer(type), self.slot(replace(longest, optional=True)))
        names = list(dict.fromkeys(by for row in rows for by, _ in row.by))
        choosers = [Value(by, INT, self._count(by, exact=False)) for by in names]
        number_value = Value("", own.type if own else memory.type, own.slot if own else memory.slot)
        slots = [memory.slot, number_value.slot, *(each.slot for each in choosers)]
        if min(slots) < 0:
            return None
        shown = own.type if own else None
        before = shown.cases if isinstance(shown, ByArgument) else ()
        other = shown.other if isinstance(shown, ByArgument) else shown
        cases = self._cases(rows, type, other, 0)
        chosen = ByArgument(type, 8, names[0], (*before, *cases), other)
        members = (choosers[0], number_value, memory, *choosers[1:])
        return Value(name, chosen, number_value.slot, members=members)

    def _cases(
        self, rows: Sequence[Led], type: str, other: Type | None, depth: int
    ) -> tuple[Case, ...]:
        found: dict[tuple[int, ...], list[Led]] = {}
        for row in rows:
            found.setdefault(row.by[depth][1], []).append(row)
        made = []
        for keys, alike in found.items():
            if len(alike[0].by) == depth + 1:
                made.append(Case(keys, self._type(alike[0], type)))
            else:
                inner = self._cases(alike, type, other, depth + 1)
                by = alike[0].by[depth + 1][0]
                made.append(Case(keys, ByArgument(type, 8, by, inner, other)))
        return tuple(made)

    def _led(self, led: Led, name: str, number: int, start: Fetch) -> Value | None:
        """What always lies where an argument leads."""
        type = self.call.parameters[number].type
        if led.kind == "struct iovec":
            return self._vector(name, type, start, self._count(led.count))
        if led.kind == "struct msghdr":
            return self._message(name, start)
        if led.kind == "struct mmsghdr":
            return self._messages(name, start, self._count(led.count))
        slot = self.slot(self._fetch(led, number))
        return Value(name, self._type(led, type), slot) if slot >= 0 else None

    def _argument(self, number: int) -> Fetch:
        return Fetch(register=self._registers[number], optional=self._ended)

    def _count(self, name: str, *, exact: bool = True) -> int:
        """The slot of a number that an argument is, or of one to which it leads. If it is not to be
        ``exact``, it may have bits that a program has left above the number."""
        if name == "retval":
            return self.slot(Fetch(register=self._result))
        wanted = name.removeprefix("*")
        number = next(n for n, each in enumerate(self.call.parameters) if each.name == wanted)
        if self._ended and self._registers[number] == self._result:
            return -1
        own = Fetch(register=self._registers[number])
        if wanted != name:
            return self.slot(replace(own, read="integer", size=4, optional=True))
        narrow = exact and "int" in self.call.parameters[number].type
        return self.slot(replace(own, signed=narrow, bit_size=32 if narrow else 0))

    def _fetch(self, led: Led, number: int) -> Fetch:
        """What fetches the bytes where an argument leads."""
        start = self._argument(number)
        if led.kind in ("name", "text"):
            return replace(
                start, read="string", limit=NAME if led.kind == "name" else self._text_limit
            )
        structure = self._table.structures.get(led.kind)
        if structure:
            size, shown = structure.size, max(p.offset + p.size for p in structure.parts)
        else:
            size = shown = NUMBERS[led.kind].size if led.kind in NUMBERS else 1
        if led.kind in ("descriptors", "processors"):
            shown = BITS
        elif led.kind == "entries":
            shown = LARGE_CHUNK - 1
        elif led.kind == "characters":
            shown = self._text_limit
        if led.count.isdigit():
            return replace(start, read="bytes", limit=size * int(led.count))
        by = led.count or led.length
        limit = size * ELEMENTS if led.count and size > 1 else shown
        counted = self._count(by, exact=bool(led.count)) if by else -1
        scale = size if led.count else 1
        return replace(start, read="bytes", limit=limit, length_from=counted, scale=scale)

    def _type(self, led: Led, type: str) -> Type:
        """The type of an argument that leads there."""
        if led.kind == "descriptors":
            return BitNumbers(type, 1)
        if led.kind == "processors":
            return BitNumbers(type)
        if led.kind == "entries":
            return DirectoryEntries(type)
        if led.kind in ("name", "text", "characters"):
            return String(type)
        several = int(led.count) if led.count.isdigit() else ELEMENTS if led.count else 0
        return Packed(type, element_of(self._table, led.kind), several)

    def _vector(
        self,
        name: str,
        type: str,
        start: Fetch,
        counted: int,
        filled: int = -1,
        buffers: int = BUFFERS,
    ) -> Value | None:
        """The texts of the first ``buffers`` of a vector."""
        if self._ended and filled < 0:
            filled = self._count("retval")
        members = [Value("", SIZE, counted)]
        for number in range(buffers):
            base = moved(start, 16 * number)
            length = self.slot(replace(moved(base, 8), read="integer", size=8, optional=True))
            text = replace(dereferenced(base), read="bytes", limit=self._text_limit)
            text = replace(text, length_from=length, optional=True)
            slot = self.slot(text) if length >= 0 else -1
            if slot < 0:
                break
            members += [Value("", SIZE, length), Value("", String("char *"), slot)]
        if counted < 0 or len(members) == 1:
            return None
        if self._ended:
            members.append(Value("", SIZE, filled))
        made = TextVector(type, self._ended)
        return Value(name, made, counted, members=tuple(members))

    def _messages(self, name: str, start: Fetch, counted: int) -> Value | None:
        """Several messages: of those that are passed the first two, with a buffer each (a resolver
        asks for both kinds of addresses so), as more have no room; of others the first."""
        structure = self._table.structures["struct mmsghdr"]
        if self._ended:
            received = moved(start, structure.parts[0].offset)
            filled = self.slot(replace(received, read="integer", size=4, optional=True))
            found = [self._message("", start, filled)]
        else:
            both = (moved(start, structure.size * number) for number in range(2))
            found = [self._message("", each, buffers=1) for each in both]
        first = [each for each in found if each]
        if not first or counted < 0:
            return None
        members = (Value("", SIZE, counted), *first)
        return Value(name, FirstOf("struct mmsghdr *"), counted, members=members)

    def _message(
        self, name: str, start: Fetch, filled: int = -1, buffers: int = BUFFERS
    ) -> Value | None:
        """A message: where to or from, the texts of its first ``buffers``, ``filled`` with so many
        bytes, and what is known of the rest."""
        structure = self._table.structures["struct msghdr"]
        parts = {part.name: part for part in structure.parts}

        def number(member: str) -> Fetch:
            part = parts[member]
            at = moved(start, part.offset)
            return replace(at, read="integer", size=part.size, optional=True)

        def pointer(member: str) -> Fetch:
            return dereferenced(moved(start, parts[member].offset))

        length = self.slot(number("msg_namelen"))
        address = replace(pointer("msg_name"), read="bytes", limit=LONGEST, length_from=length)
        shown = [Value("msg_name", SocketAddress(), self.slot(replace(address, optional=True)))]
        counted = self.slot(number("msg_iovlen"))
        vector = self._vector(
            "msg_iov", "struct iovec *", pointer("msg_iov"), counted, filled, buffers
        )
        if vector is None or shown[0].slot < 0:
            return None
        shown.append(vector)
        more = 0 if self._ended else 1
        for member in ("msg_controllen", "msg_flags")[: 1 + self._ended]:
            slot = self.slot(number(member))
            more += slot < 0
            if slot >= 0:
                shown.append(Value(member, number_type(self._table, parts[member]), slot))
        record = Record("struct msghdr", structure.size, (), more)
        return Value(name, record, counted, members=tuple(shown))


def passed(table: Table, name: str) -> Type | None:
    """Return the structure to which an argument, ``CALL.ARGUMENT``, leads when the call begins."""
    for led in table.filled.get(f"<{name}", ()):
        if led.kind in table.structures:
            same = all(each.kind == led.kind for each in table.filled[f"<{name}"])
            return element_of(table, led.kind) if same else None
    return None


def element_of(table: Table, kind: str) -> Type:
    """Return the type of a structure, or of another value that is one number."""
    structure = table.structures.get(kind)
    if structure is None:
        return NUMBERS[kind]
    members = tuple(Member(p.name, number_type(table, p), p.offset) for p in structure.parts)
    return Record(kind, structure.size, members, structure.more)


def number_type(table: Table, part: Part) -> Type:
    """Return the type of a member."""
    if part.written == "mode":
        return Mode("umode_t", part.size)
    if part.written == "text":
        return Array(f"char[{part.size}]", part.size, Character("char", 1, True), part.size)
    if part.written in WRITTEN:
        return WRITTEN[part.written]
    if group := table.groups.get(part.written):
        name = "void *" if part.written == "handler" else f"{part.written}_t"
        return Flags(name, part.size, part.signed, group.field, group.constants)
    return fixed_width(part.size, signed=part.signed)
