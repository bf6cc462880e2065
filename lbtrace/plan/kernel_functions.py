"""Functions of the kernel: see `lbtrace.plan.found.Finder`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations, locate_values
from lbtrace.abi.locations import Location
from lbtrace.btf.prototypes import KernelTypes
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError, option, propose
from lbtrace.model import NO_BINARY, Fetch, Function, KernelEvent, Probe, Prototype, Site
from lbtrace.plan.found import Found
from lbtrace.plan.patterns import COPY, matching, named_among
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import depth, member_names
from lbtrace.plan.warnings import name_functions
from lbtrace.system.kernel_symbols import count_functions, find_size, find_traceable
from lbtrace.validation import split_listed

MOST = 1000
"""Functions of a trace without ``--force``: every process of the machine calls them, and older
kernels take 0.1 s for each."""

ENTRY = Site(0, 0, emulated=True)
"""The first instruction, whose address is the kernel's affair."""

INSIDE = Site(0, 0)
PLACE = re.compile(r"[\w.:]+\+(0x[0-9a-f]+|[1-9]\d*)", re.I)

SPACE = "either"
"""The kernel's types do not say of a pointer whether it leads to memory of the process."""

ON_STACK = "passed on the kernel's stack"
FORBIDDEN = "left out: the kernel allows no probes there"
SEVERAL = "left out: several functions of the kernel have this name"
CHANGED = "as the compiler changed what is passed, arguments are shown as they are in registers"


class Selected(Struct, frozen=True):
    """The ``names`` of functions that can be traced, ``MODULE:NAME`` of a module's, and of others
    that were meant and cannot, why."""

    names: tuple[str, ...]
    left_out: Mapping[str, str]


def find(images: Sequence[Image], selection: Selection) -> Iterator[Found | str]:
    """Yield the functions that ``selection`` names. Raises `NoMatchError`, `KernelError`."""
    parts = split_listed(selection.named["kernel"])
    names = [part for part in parts if not PLACE.fullmatch(part)]
    yield from (_find_place(part) for part in parts if part not in names)
    if not names:
        return
    selected = select(names)
    if len(selected.names) > MOST and not selection.force:
        raise UsageError(
            f"{len(selected.names):,} functions of the kernel match, more than {MOST:,}",
            f"name fewer, or add {option('force')}",
        )
    types = KernelTypes(depth(selection.values), member_names(selection.values))
    for name in selected.names:
        prototype = types.find(name)
        opens = Probe(ENTRY, "opens", source="kernel", binary=NO_BINARY, event=KernelEvent(name, 0))
        yield Found(
            _shown(name.rpartition(":")[2], "uretprobe: the kernel's own, a kretprobe"),
            opens,
            prototype,
            partial(_locate, os.uname().machine),
            replace(opens, role="closes", source="kernel return"),
        )
    yield from explain(selected)
    yield from name_functions([n for n in selected.names if COPY.search(n)], CHANGED)


def select(patterns: Sequence[str]) -> Selected:
    """Return the functions that any of ``patterns`` names (`named_among`): ``vfs_read``,
    ``tcp_*``, ``MODULE:*``. Raises `NoMatchError` where one names none that can be traced,
    `KernelError`."""
    counted = count_functions()
    traceable = find_traceable()
    alike = Counter[str]()
    for name, count in counted.items():
        alike[name.rpartition(":")[2]] += count
    left_out: dict[str, str] = {}

    def find(part: str) -> list[str]:
        named = _matching(counted, part)
        fit = []
        for name in named:
            if traceable is not None and name not in traceable:
                left_out[name] = FORBIDDEN
            elif alike[name.rpartition(":")[2]] > 1:
                left_out[name] = SEVERAL
            else:
                fit.append(name)
        if not fit:
            raise _nothing(part, named, left_out, counted)
        return fit

    return Selected(tuple(named_among(find, patterns)), left_out)


def _find_place(text: str) -> Found:
    """The place ``NAME+OFFSET``. Where an instruction begins, the kernel finds out as it attaches.
    Raises `NoMatchError`, `KernelError`."""
    name, offset = text.rsplit("+", 1)
    number = int(offset, 0)
    (named,) = select([name]).names
    size = find_size(named)
    if 0 < size <= number:
        hint = f"give an offset below {size:#x}"
        raise NoMatchError(f"{text}: {name} has {size:#x} bytes", hint)
    event = KernelEvent(named, number)
    point = Probe(INSIDE, "point", source="kernel place", binary=NO_BINARY, event=event)
    shown = f"{named.rpartition(':')[2]}+{number:#x}"
    nothing = Prototype((), None, complete=True)
    places = partial(_locate, os.uname().machine)
    return Found(_shown(shown), point, nothing, places, by_register=True)


def _shown(name: str, returns: str = "") -> Function:
    return Function(name, 0, 0, 0, returns=returns, binary=NO_BINARY)


def explain(selected: Selected) -> Iterator[str]:
    """Yield why functions are left out."""
    for reason in (FORBIDDEN, SEVERAL):
        yield from name_functions([n for n, r in selected.left_out.items() if r == reason], reason)


def _matching(names: Mapping[str, int], part: str) -> list[str]:
    """The functions that a pattern means, in the kernel and its modules or in one of these."""
    module, colon, pattern = ("", "", part) if part.startswith("/") else part.rpartition(":")
    inside = [n for n in names if not colon or fnmatchcase(n.rpartition(":")[0], module)]
    plain = {name: name.rpartition(":")[2] for name in inside}
    meant = set(matching(plain.values(), [pattern], "kernel"))
    return sorted(name for name, own in plain.items() if own in meant)


def _nothing(
    part: str, named: Sequence[str], left_out: Mapping[str, str], names: Mapping[str, int]
) -> NoMatchError:
    """Why a pattern names nothing that can be traced."""
    if named:
        reason = left_out[named[0]].partition(": ")[2]
        what = named[0] if len(named) == 1 else f"{named[0]} and others that {part} names"
        return NoMatchError(f"{what} cannot be traced: {reason}", "name functions that call them")
    if ":" in part and not part.startswith("/"):
        module = part.rpartition(":")[0]
        hint = f"leave {module}: out, or load the module: {module} may be part of the kernel itself"
        return NoMatchError(f"{part}: no module has such a function", hint)
    hint = propose(part, names, "lbtrace list --kernel shows all")
    return NoMatchError(f"{part}: the kernel has no such function", hint)


def _locate(machine: str, prototype: Prototype) -> Locations:
    """Where the values of a function lie: as those of a program's, in the kernel's memory."""
    found = locate_values(machine, prototype)
    return replace(
        found, parameters=tuple(map(_inside, found.parameters)), result=_inside(found.result)
    )


def _inside(place: Location) -> Location:
    fetches = [*place.words, *([place.memory] if place.memory else [])]
    if any(isinstance(each, Fetch) and each.base == "stack" for each in fetches):
        return Location(reason=ON_STACK)
    words = tuple(replace(w, space=SPACE) if isinstance(w, Fetch) else w for w in place.words)
    memory = replace(place.memory, space=SPACE) if place.memory else None
    return replace(place, words=words, memory=memory)
