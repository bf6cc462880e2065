"""Types of which nothing is known but the name."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, Type
from lbtrace.values.datum import Unreadable


class Opaque(Type, Struct, frozen=True, tag="opaque"):
    """A type lbtrace knows by name but cannot show; ``reason`` says why, if not for
    its being unknown."""

    name: str
    reason: str = ""

    is_known = False

    def decoder(self) -> Decoder:
        unknown = Unreadable()
        return lambda raw: unknown
