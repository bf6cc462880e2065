"""What left calls: the exception that is on its way where control lands.

Sources: Itanium C++ ABI, exception handling, 2.2.1 (``__cxa_exception``, which lies before the
``_Unwind_Exception``), and 2.9.5 of the ABI (``__si_class_type_info``); libstdc++'s and libc++'s
``std::runtime_error`` and ``logic_error``, whose text is at the address after the virtual table's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.calls import panics
from lbtrace.calls.payload import Blob, collector
from lbtrace.elf.cpp_names import shorten
from lbtrace.elf.demangle import demangled
from lbtrace.model import Datum, Event, Fetch
from lbtrace.values import thrown

CLASSES = (b"GNUCC++\0", b"CLNGC++\0")
"""Of exceptions of C++ by libstdc++ and libc++abi, not of those that are thrown once more."""

TYPE, OBJECT = -80, 32
"""Where the address of its ``type_info`` is, and the exception itself, from the
``_Unwind_Exception`` on."""

NAME, BASE, WHAT = 8, 16, 8
"""In a ``type_info`` the addresses of the name and of the only base's; the text of an exception."""

LIMIT = 120
"""Bytes of a text that are fetched."""

Reader: TypeAlias = Callable[[Event, Blob], Datum]


def fetches(register: str) -> tuple[Fetch, ...]:
    """Return what is fetched where ``register`` holds the address of the exception."""

    def string(offset: int, *derefs: int) -> Fetch:
        place = Fetch(register=register, offset=offset, derefs=derefs)
        return replace(place, read="string", limit=LIMIT, optional=True)

    return (
        Fetch(register=register, read="integer", size=8, optional=True),
        string(TYPE, NAME, 0),
        string(TYPE, BASE, NAME, 0),
        string(TYPE, BASE, BASE, NAME, 0),
        string(OBJECT + WHAT, 0),
    )


def reader(fetched: tuple[Fetch, ...]) -> Reader:
    """Return what tells the exception from an event of a probe with these fetches; it is None where
    that is not one of C++, or nothing is fetched."""
    if len(fetched) == len(panics.fetches("")):
        return panics.reader(fetched)
    if len(fetched) != len(fetches("")):
        return lambda event, blob: None
    collect = collector(fetched)

    def read(event: Event, blob: Blob) -> Datum:
        found = collect(event, blob)
        if found.faults & 1 or found.words[0].to_bytes(8, "big") not in CLASSES:
            return None
        return thrown.read(found, range(1, len(fetched)), _spelled)

    return read


def _spelled(name: str) -> str:
    """The name of a type that a ``type_info`` has mangled."""
    mangled = f"_ZTS{name.removeprefix('*')}"
    found = demangled(mangled)
    return shorten(found.removeprefix("typeinfo name for ")) if found != mangled else name
