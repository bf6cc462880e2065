"""What left calls: the exception that is on its way where control lands.

Sources: Itanium C++ ABI, exception handling, 2.2.1 (``__cxa_exception``, which lies before the
``_Unwind_Exception``), and 2.9.5 of the ABI (``__si_class_type_info``, ``__vmi_class_type_info``);
libstdc++'s ``unwind-cxx.h``, libc++abi's ``cxa_exception.h``; the ``std::runtime_error`` and
``logic_error`` of libstdc++ and libc++, whose text is at the address after the virtual table's.
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

CLASSES = {b"GNUCC++": -80, b"CLNGC++": -88}
"""Of exceptions of C++ by libstdc++ and libc++abi, but for the last byte: that is 1 of those that
``rethrow_exception`` throws once more, else 0. And where the address of the first one's object is
then, from the ``_Unwind_Exception`` on."""

GNU, LLVM = CLASSES.values()

TYPE, OBJECT = -80, 32
"""Where the address of its ``type_info`` is, and the exception itself."""

NAME, BASE, WHAT = 8, 16, 8
"""In a ``type_info`` the addresses of the name and of the only base's; the text of an exception."""

BASES, COUNT, FLAGS = ((24, 32), (40, 48)), 32, 3
"""In a ``type_info`` of a class with several bases: where the address of a base's is, and in all
bits but eight how far the base lies in the object, negative where it is virtual. What would be the
only base's are flags, and from this bit on the number of bases."""

VIRTUAL = 1 << 63
"""From here on numbers are negative."""

LIMIT = 120
"""Bytes of a text that are fetched."""

KIND, *OFFSETS, WHOLE = 6, 7, 8, 9
"""The slots that say whether there are several bases, and where two of them lie; the first of those
with texts."""

Reader: TypeAlias = Callable[[Event, Blob], Datum]


def fetches(register: str, primary: int = GNU) -> tuple[Fetch, ...]:
    """Return what is fetched where ``register`` holds the address of the exception, and ``primary``
    is where the first one's is."""

    def integer(offset: int, bits: int = 0) -> Fetch:
        place = Fetch(register=register, offset=offset, bit_size=bits)
        return replace(place, read="integer", optional=True)

    other = Fetch(register=register, offset=OBJECT, plus=2, factor=-1, optional=True)
    chosen = Fetch(base="slot", earlier=3, operation="multiply", plus=1, optional=True)
    thrown = replace(other, plus=4)

    def inside(offset: int, *derefs: int) -> Fetch:
        """What lies in the exception, or what its ``type_info`` leads to."""
        return Fetch(base="slot", earlier=5, offset=offset, derefs=derefs, optional=True)

    def word(*derefs: int) -> Fetch:
        return replace(inside(TYPE - OBJECT, *derefs), read="integer")

    def string(place: Fetch) -> Fetch:
        return replace(place, read="string", limit=LIMIT)

    def name(*derefs: int) -> Fetch:
        return string(inside(TYPE - OBJECT, *derefs, NAME, 0))

    return (
        *(integer(0), integer(0, 1), integer(primary), other, chosen, thrown, word(BASE)),
        *(replace(word(at), bit_offset=8, bit_size=56, signed=True) for _, at in BASES),
        *(name(), name(BASE), name(BASE, BASE), *(name(at) for at, _ in BASES)),
        string(inside(WHAT, 0)),
        string(replace(inside(WHAT, 0), plus=OFFSETS[1])),
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
        thrower, again = divmod(found.words[0], 1 << 8)
        place = CLASSES.get(thrower.to_bytes(7, "big"))
        if found.faults & 1 or place is None or (again and place != fetched[2].offset):
            return None
        own, only, *names, what, what_of_second = range(WHOLE, len(fetched))
        above, first, second = names
        count = found.words[KIND] >> COUNT
        several = count > 0 and found.words[KIND] % (1 << COUNT) <= FLAGS
        if found.faults >> KIND & 1 or not several:
            return thrown.read(found, own, {only: what, above: what}, what, _spelled)
        places = [found.words[at] for at in OFFSETS]
        texts = {}
        if not places[0]:
            texts[first] = what
        if count > 1 and places[1] < VIRTUAL:
            texts[second] = what_of_second
        return thrown.read(found, own, texts, what, _spelled)

    return read


def _spelled(name: str) -> str:
    """The name of a type that a ``type_info`` has mangled."""
    mangled = f"_ZTS{name.removeprefix('*')}"
    found = demangled(mangled)
    return shorten(found.removeprefix("typeinfo name for ")) if found != mangled else name
