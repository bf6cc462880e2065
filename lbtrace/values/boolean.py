"""Truth values."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from lbtrace.values.base import Decoder, NativeForm, NumberType
from lbtrace.values.datum import Datum, WrittenNumber


class OddTruth(WrittenNumber):
    """A truth value that is neither 0 nor 1, as of memory that was never set: true to C."""

    __slots__ = ()

    column_kind = "truth"

    def text(self) -> str:
        return f"true ({int(self)})"

    def column(self) -> bool:
        return True

    def expression(self) -> tuple[str, Sequence[Datum], int]:
        return "true", (int(self),), 0


class Boolean(NumberType, Struct, frozen=True, tag="boolean"):
    """A truth value of ``size`` bytes."""

    name: str
    size: int

    computes = True
    is_truth = True

    def native_form(self) -> NativeForm:
        return "truth" if self.size <= 8 else ""

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1

        def decode(raw: int) -> Datum:
            number = raw & mask
            return OddTruth(number) if number > 1 else number == 1

        return decode
