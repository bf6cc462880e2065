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
    """A number of one of several types. The argument ``by`` decides, which is the first of its
    members, as the ``cases`` say; it is of the ``other`` type in none of them, and where the
    argument is not known. The second member is the number, the third what lies where it leads, for
    cases that are no numbers. A case that another argument decides about has that as the fourth."""

    name: str
    size: int
    by: str
    cases: tuple[Case, ...]
    other: Type | None
    signed: bool = False

    computes = True

    def constants(self) -> tuple[tuple[int, str], ...]:
        of_cases = [pair for case in self.cases if case.type for pair in case.type.constants()]
        return tuple(dict.fromkeys(of_cases))

    @property
    def decider(self) -> str:  # type: ignore[override]
        return self.by

    def decided(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        if self.other and any(name == known for _, known in self.other.constants()):
            return None
        numbers = tuple(
            key
            for case in self.cases
            if case.type and any(name == known for _, known in case.type.constants())
            for key in case.keys
        )
        return (self.by, numbers) if numbers else None

    def decoder(self) -> Decoder:
        return self.other.decoder() if self.other else lambda raw: UNUSED

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        chooser, number, *led = value.members
        slot = chooser.slot

        def reader(type: Type | None) -> Reader:
            if type is None:
                return lambda fetched: UNUSED
            if isinstance(type, ByArgument):
                return probe.reader(Value("", type, slot, members=(led[1], number, led[0])))
            return probe.reader(replace(number if type.is_number else led[0], type=type))

        readers = {key: reader(case.type) for case in self.cases for key in case.keys}
        other = reader(self.other)
        if slot < 0:
            return other

        def read(fetched: Fetched) -> Datum:
            return readers.get(fetched.words[slot] & WORD, other)(fetched)

        return read
