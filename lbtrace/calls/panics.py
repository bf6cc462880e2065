"""What left calls of Rust: the panic that is on its way where control lands.

Sources: library/panic_unwind/src/gcc.rs (``Exception``: after the ``_Unwind_Exception`` a canary,
then the payload, a ``Box<dyn Any>``), library/std/src/panicking.rs (the payload of ``panic!`` is a
``&str`` or a ``String``).
"""

from __future__ import annotations

from collections.abc import Callable

from lbtrace.calls.payload import Blob, collector
from lbtrace.model import Datum, Event, Fetch
from lbtrace.values import thrown

CLASSES = (b"MOZ\0RUST", b"TSUR\0ZOM")
"""Of panics: its bytes in memory, by the compiler's version."""

DATA, TABLE = 40, 48
"""Of the two words of the payload, from the ``_Unwind_Exception`` on."""

SIZE = 8
"""In the table of a type."""

STR, STRING = 16, 24
"""The sizes of what ``panic!`` throws."""

LIMIT = 120
"""Bytes of a message that are fetched."""

Reader = Callable[[Event, Blob], Datum]


def fetches(register: str) -> tuple[Fetch, ...]:
    """Return what is fetched where ``register`` holds the address of the exception: its class, the
    size of the payload, and as a text what its first words, or the second ones, lead to, as the
    compiler orders the capacity and the address of a ``String``."""

    def integer(offset: int, *derefs: int) -> Fetch:
        return Fetch(*("register", register, offset, derefs), read="integer", size=8, optional=True)

    def text(at: int, length_from: int) -> Fetch:
        return Fetch(
            *("register", register, DATA, (at, 0)),
            read="bytes",
            limit=LIMIT,
            length_from=length_from,
            optional=True,
        )

    return (
        *(integer(0), integer(TABLE, SIZE), integer(DATA, 8), integer(DATA, 16)),
        *(text(0, 2), text(0, 3), text(8, 3)),
    )


def reader(fetched: tuple[Fetch, ...]) -> Reader:
    """Return what tells the panic from an event of a probe with these fetches; it is None where
    that is something else."""
    collect = collector(fetched)

    def tell(event: Event, blob: Blob) -> Datum:
        found = collect(event, blob)
        if found.faults & 1 or found.words[0].to_bytes(8, "little") not in CLASSES:
            return None
        size = 0 if found.faults & 2 else found.words[1]
        return thrown.read_panic(found, {STR: (4,), STRING: (5, 6)}.get(size, ()))

    return tell
