"""Numbers of users and groups, of which -1 means none: ``chown(…, user=-1, group=100)``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType


class Owner(NumberType, Struct, frozen=True, tag="owner"):
    """An unsigned number whose largest one is written as -1."""

    name: str
    size: int

    computes = True

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1
        return lambda raw: -1 if raw & mask == mask else raw & mask
