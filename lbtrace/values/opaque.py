"""Types of which nothing is known but the name."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, Type
from lbtrace.values.datum import Unreadable

DECLARED = "its type is only declared"
"""Why nothing is known of a type that debug information names, but does not define. clang leaves
definitions out that another file is expected to have, such as that of ``std::string``."""


class Opaque(Type, Struct, frozen=True, tag="opaque"):
    """A type lbtrace knows by name but cannot show; ``reason`` says why, if not for
    its being unknown."""

    name: str
    reason: str = ""

    is_known = False

    @property
    def is_declared(self) -> bool:
        return self.reason == DECLARED

    def decoder(self) -> Decoder:
        unknown = Unreadable()
        return lambda raw: unknown
