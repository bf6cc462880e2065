"""Rust's ``std::io::Error``, whose word is an address or a number with a tag in its lowest bits."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.integer import Integer
from lbtrace.values.opaque import Opaque
from lbtrace.values.outcome import ERRORS
from lbtrace.values.record import Fields
from lbtrace.values.variants import Variant

TAGS = ("SimpleMessage", "Custom", "Os", "Simple")
"""The variants, by the two lowest bits of the word (``repr_bitpacked.rs`` of Rust's library)."""

LED = TAGS[:2]
"""Those of which the rest of the word is the address; of the others the upper half is a number."""

CODE = Integer("i32", 4, True)


class IoError(Type, Struct, frozen=True, tag="io_error"):
    """An error of the operating system, or one of a ``kind``. Of a value the first member is the
    word, the others are the records ``led`` where that leads by its tag."""

    name: str
    kind: Type
    led: tuple[Type, ...]
    size: int = 8

    through = True

    def bare(self) -> IoError:
        return replace(self, led=tuple(Opaque("") for _ in self.led))

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        word, *led = map(probe.reader, value.members)
        code, kind = CODE.decoder(), self.kind.decoder()

        def read(fetched: Fetched) -> Datum:
            bits = word(fetched)
            if not isinstance(bits, int):
                return bits  # why it cannot be read
            tag, number = bits & 3, bits >> 32
            name = TAGS[tag]
            if name == "Simple":
                return Variant(name, (Argument("", kind(number)),))
            if name == "Os":
                raised = code(number)
                errno = ERRORS.get(raised) if isinstance(raised, int) else None
                named = (Argument("errno", Constant(errno)),) if errno else ()
                return Variant(name, (Argument("code", raised), *named))
            what = led[tag](fetched)
            if isinstance(what, Fields):
                return Variant(name, what.fields, what.more)
            return Variant(name, (Argument("", what),))

        return read
