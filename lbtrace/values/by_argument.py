"""Numbers whose meaning another argument of the call decides: that of ``fcntl``, by ``cmd``."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.base import Decoder, Fetched, NumberType, Probe, Reader, Type, Value
from lbtrace.values.datum import UNUSED, Datum

WORD = (1 << 32) - 1


class Case(Struct, frozen=True):
    """The ``type`` where the other argument is one of ``keys``, of 32 bits; None where nothing
    looks at the number then."""

    keys: tuple[int, ...]
    type: Type | None


class ByArgument(NumberType, Struct, frozen=True, tag="by_argument"):
    """A number of one of several types. The argument ``by`` decides, which is the first of its two
    members, as the ``cases`` say; it is of the ``other`` type in none of them, and where the
    argument is not known."""

    name: str
    size: int
    by: str
    cases: tuple[Case, ...]
    other: Type
    signed: bool = False

    computes = True

    def constants(self) -> tuple[tuple[int, str], ...]:
        of_cases = [pair for case in self.cases if case.type for pair in case.type.constants()]
        return tuple(dict.fromkeys(of_cases))

    def decoder(self) -> Decoder:
        return self.other.decoder()

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        chooser, number = value.members
        slot = chooser.slot

        def reader(type: Type) -> Reader:
            return probe.reader(replace(number, type=type))

        found = [(case.keys, case.type and reader(case.type)) for case in self.cases]
        readers = {key: read for keys, read in found for key in keys}
        other = reader(self.other)
        if slot < 0:
            return other

        def read(fetched: Fetched) -> Datum:
            chosen = readers.get(fetched.words[slot] & WORD, other)
            return chosen(fetched) if chosen else UNUSED

        return read
