"""Functions of libraries that a program calls, traced where it does so: at its PLT stubs.

What libraries call of each other comes to no stub of the program, so it costs nothing. A stub jumps
to the function, a tail call through a pointer: `lbtrace.plan.tail_calls` sees its calls return. Of
functions that the program also calls through slots of the GOT (``-fno-plt``), without a stub, or
from too many places, the library is probed, and the kernel program asks who has called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lbtrace.elf import plt
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.machine import Machine
from lbtrace.model import Function
from lbtrace.plan.binary_plan import TracedBinary
from lbtrace.plan.called import Called
from lbtrace.plan.direct_calls import find_direct_calls
from lbtrace.plan.landing_pads import is_catch
from lbtrace.plan.return_places import MOST_OF_STUBS, MOST_SINGLE
from lbtrace.plan.selection import Selection
from lbtrace.plan.warnings import name_functions

LONGEST = 24
"""Bytes of a stub, at most: on arm64 with BTI and pointer authentication."""

POINTERS = "only calls by name are shown, as the program may also call through pointers"


def move(
    parts: Sequence[TracedBinary], selection: Selection
) -> tuple[list[TracedBinary], list[str]]:
    """Return the program, which is first, with stubs in place of the functions of the libraries,
    which have those left that it has no stub for, or calls from too many places; and notes."""
    program, *libraries = parts
    stubs = program.image.once(plt.stubs)
    direct = {*_slots_called(program.image)}
    ways: dict[str, list[int]] = {}
    for at in _few_called(program.image, stubs, selection):
        if stubs.slot(at) not in direct:
            ways.setdefault(stubs[at].name, []).append(at)
    called = dict[int, Called]()
    left = list[TracedBinary]()
    for part in libraries:
        kept = []
        for each in part.functions:
            # At a catch's stub exceptions land, which is before its own call begins.
            fits = not (each.local or each.address in part.outer or is_catch(each.name))
            names = (each.name, *each.aliases) if fits else ()
            found = {at: name for name in names for at in ways.pop(name, ())}
            called |= {
                at: Called(part.image, each, name, stubs.slot(at)) for at, name in found.items()
            }
            kept += [] if found else [each]
        left.append(part._replace(functions=kept))
    if not called:
        return list(parts), []
    own = (*program.functions, *_functions(program.image, stubs, called))
    ordered = sorted(own, key=lambda each: each.address)
    pointed = {called[at].function.name for at in called if stubs.is_pointed_to(at)}
    notes = name_functions(sorted(pointed), POINTERS)
    return [program._replace(functions=ordered, called=called), *left], notes


def _few_called(image: Image, stubs: Stubs, selection: Selection) -> Iterator[int]:
    """The stubs of which there may be probes wherever their calls return, if any are needed."""
    if selection.returns != "sites" and (
        selection.returns != "auto" or selection.action == "count"
    ):
        yield from stubs
        return
    left = MOST_SINGLE if selection.single else MOST_OF_STUBS
    calls = find_direct_calls(image, Machine(image.machine), stubs, left)
    for at in sorted(calls, key=lambda each: len(calls[each])):
        left -= len(calls[at])
        if left >= 0:
            yield at


def _slots_called(image: Image) -> Iterator[int]:
    """The slots through which code of a program calls that is no stub."""
    calls = Machine(image.machine).linking.slot_calls
    for section in image.sections:
        if section.flags & SHF_EXECINSTR and not section.name.startswith(".plt"):
            yield from calls(image.content(section), section.address)


def _functions(image: Image, stubs: Stubs, called: Mapping[int, Called]) -> Iterator[Function]:
    """The stubs, as functions of the program."""
    following = dict(zip(sorted(stubs), [*sorted(stubs)[1:], 0], strict=True))
    for at, each in called.items():
        size = min(LONGEST, following[at] - at) if following[at] > at else LONGEST
        name = each.function.name if each.name.startswith("_Z") else each.name
        yield Function(name, at, size, image.offset(at), each.function.aliases)
