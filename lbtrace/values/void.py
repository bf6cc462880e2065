"""The absence of a value."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, Type


class Void(Type, Struct, frozen=True, tag="void"):
    """The result of a function that returns nothing."""

    has_values = False

    def decoder(self) -> Decoder:
        return lambda raw: None


VOID = Void()
