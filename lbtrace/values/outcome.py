"""What a system call returns: a number or an error, and what the kernel has filled meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from errno import errorcode
from typing import Any

from msgspec import Struct

from lbtrace.values.array import Elements
from lbtrace.values.base import Decoder, Fetched, NumberType, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum, Members, Unreadable, column_of
from lbtrace.values.enumeration import Constant
from lbtrace.values.notation import text
from lbtrace.values.pointer import Address
from lbtrace.values.record import Fields
from lbtrace.values.string import Text

RESTARTS = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    516: "ERESTART_RESTARTBLOCK",
}
"""What an interrupted call returns, which the program does not get (include/linux/errno.h)."""

ERRORS = {**errorcode, 95: "EOPNOTSUPP", **RESTARTS}

NUMBERS = {f"-{name}": -number for number, name in reversed(ERRORS.items())}
"""The results that have names."""

MOST = 4095
"""``MAX_ERRNO`` (include/linux/err.h)."""

WORD = (1 << 64) - 1


class Filled(Members, Struct, frozen=True):
    """The result of a call that fills memory: its first field is what it ``returned``."""

    fields: tuple[Argument, ...]
    more: int = 0

    def returned(self) -> Datum:
        return self.fields[0].value

    def filled(self) -> Sequence[Argument]:
        return self.fields[1:]

    def text(self) -> str:
        returned, *others = self.fields
        return ", ".join([text(returned.value), *map(str, others)])

    def column(self) -> Any:
        return {field.name: column_of(field.value) for field in self.fields}


class Outcome(NumberType, Struct, frozen=True, tag="outcome"):
    """A number, or the name of an error. It is an ``address`` where the call maps memory; numbers
    may be of a type that has ``names`` for them. Of its
    members the first one is the number. So many as are ``asked`` for follow, then what the call
    fills; then so many as are ``late``, which could not be read when the call began, and which not
    each probe fetches. If it is ``bounded``, the last one is for how many bytes there was room.
    Where it ``fills_unless_0``, a call that returns 0 has filled nothing."""

    name: str = "long"
    address: bool = False
    late: int = 0
    asked: int = 0
    bounded: bool = False
    fills_unless_0: bool = False
    names: Type | None = None

    size = 8
    signed = True
    computes = True

    def decoder(self) -> Decoder:
        address, named = self.address, self.names and self.names.decoder()

        def decode(raw: int) -> Datum:
            error = -raw & WORD
            if 0 < error <= MOST:
                return Constant(f"-{ERRORS.get(error, error)}")
            if address:
                return Address(raw)
            if named:
                return named(raw)
            return raw - (WORD + 1) if raw >> 63 else raw

        return decode

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        number = probe.reader(value.members[0])
        parts = list(value.members[1:])
        room = probe.reader(parts.pop()) if self.bounded else None
        end = len(parts) - self.late
        asked = [(part.name, probe.reader(part)) for part in parts[: self.asked]]
        filled = [(part.name, probe.reader(part)) for part in parts[self.asked : end]]
        late = [(p.name, probe.reader(p)) for p in parts[end:] if probe.is_piece(p.slot)]
        unfilled = 0 if self.fills_unless_0 else None

        def read(fetched: Fetched) -> Datum:
            returned = number(fetched)
            most = room(fetched) if room else None
            shown = [Argument(name, read(fetched)) for name, read in asked]
            fills = returned != unfilled and not isinstance(returned, Constant | Unreadable)
            if fills and most != 0:
                left = [Argument(name, within(read(fetched), most)) for name, read in filled]
                shown += [each for each in left if not _leads_nowhere(each.value)]
            again = [Argument(name, read(fetched)) for name, read in late]
            # nothing is read again where nothing could be
            shown += [each for each in again if not isinstance(each.value, Unreadable | Address)]
            return Filled((Argument("returned", returned), *shown)) if shown else returned

        return read


def _leads_nowhere(datum: Datum) -> bool:
    """Whether a call was given NULL instead of room for a structure."""
    if isinstance(datum, Fields):
        return all(isinstance(field.value, Unreadable) for field in datum.fields)
    if isinstance(datum, Elements):
        return all(isinstance(element, Unreadable) for element in datum.elements)
    return isinstance(datum, Unreadable) or (isinstance(datum, Address) and not datum)


def within(datum: Datum, most: Datum) -> Datum:
    """Return ``datum``; of a text only what lies in the first ``most`` bytes."""
    if not (isinstance(datum, Text) and isinstance(most, int)):
        return datum
    if len(datum.data) >= most:
        return Text(datum.data[:most], most)
    return datum if datum.length is None else Text(datum.data, min(datum.length, most))
