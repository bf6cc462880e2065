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
from lbtrace.values.record import member_readers

RESTARTS = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    516: "ERESTART_RESTARTBLOCK",
}
"""What an interrupted call returns, which the program does not get (include/linux/errno.h)."""

ERRORS = {**errorcode, 95: "EOPNOTSUPP", **RESTARTS}

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
    """A number, or the name of an error. It is an ``address`` where the call maps memory."""

    name: str = "long"
    address: bool = False

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
        (_, number), *others = member_readers(value, probe)

        def read(fetched: Fetched) -> Datum:
            returned = number(fetched)
            if isinstance(returned, Constant | Unreadable):
                return returned
            filled = [Argument(name, read(fetched)) for name, read in others]
            return Filled((Argument("returned", returned), *filled))

        return read
