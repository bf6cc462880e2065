"""Truth values."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NativeForm, NumberType


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
        return lambda raw: raw & mask != 0
