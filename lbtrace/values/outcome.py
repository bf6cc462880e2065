"""What a system call returns: a number or an error, and what the kernel has filled meanwhile."""

from __future__ import annotations

from errno import errorcode
from typing import Any

from msgspec import Struct

from lbtrace.values.base import Decoder, Fetched, NumberType, Probe, Reader, Value
from lbtrace.values.datum import Argument, Datum, Members, Unreadable, column_of
from lbtrace.values.enumeration import Constant
from lbtrace.values.notation import text
from lbtrace.values.pointer import Address

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

    def text(self) -> str:
        returned, *others = self.fields
        return ", ".join([text(returned.value), *map(str, others)])

    def column(self) -> Any:
        return {field.name: column_of(field.value) for field in self.fields}


class Outcome(NumberType, Struct, frozen=True, tag="outcome"):
    """A number, or the name of an error. It is an ``address`` where the call maps memory. Of its
    members the first one is the number; the last, so many as are ``late``, are what could not be
    read when the call began, which not each probe fetches, and the others what the call fills."""

    name: str = "long"
    address: bool = False
    late: int = 0

    size = 8
    signed = True
    computes = True

    def decoder(self) -> Decoder:
        address = self.address

        def decode(raw: int) -> Datum:
            error = -raw & WORD
            if 0 < error <= MOST:
                return Constant(f"-{ERRORS.get(error, error)}")
            if address:
                return Address(raw)
            return raw - (WORD + 1) if raw >> 63 else raw

        return decode

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        number = probe.reader(value.members[0])
        end = len(value.members) - self.late
        filled = [(part.name, probe.reader(part)) for part in value.members[1:end]]
        parts = [part for part in value.members[end:] if probe.is_piece(part.slot)]
        late = [(part.name, probe.reader(part)) for part in parts]

        def read(fetched: Fetched) -> Datum:
            returned = number(fetched)
            failed = isinstance(returned, Constant | Unreadable)
            shown = [] if failed else [Argument(name, read(fetched)) for name, read in filled]
            again = [Argument(name, read(fetched)) for name, read in late]
            shown += [each for each in again if not isinstance(each.value, Unreadable)]
            return Filled((Argument("returned", returned), *shown)) if shown else returned

        return read
