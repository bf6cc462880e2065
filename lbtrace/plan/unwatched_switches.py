"""Switches of stacks that are known to happen, but have no probe.

A name may tell that a file switches stacks, or what looks like it in its code, where no probe can
be: the code of libco is an array of bytes, that of hand-written assembly has symbols without types.
Then nothing is known of which stack a call is on, and the plan says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.model import Plan, UnseenSwitches
from lbtrace.plan import known_names, stack_exchanges, stack_switches
from lbtrace.plan.known_names import SYSTEM
from lbtrace.plan.signal_coroutines import find_jump

SPLIT = "__morestack"
"""Calls the function that wants more stack on another segment, and comes back as that returns: its
own calls are known to be on another stack where its file is traced only."""

RARELY = re.compile(r"libcrypto\.so")
"""Libraries, by DT_SONAME, that many programs have, and that switch stacks only for those which
ask for it: ASYNC_start_job(3)."""

FIBERS = known_names.FIBERS.difference(stack_exchanges.OFFERS)
"""What a library of fibers offers, in the file whose code switches stacks."""

_WANTED = Wanted(FIBERS)
_WATCHED = frozenset({"switch", "stack"})

HAS = "switches stacks where no probe is"
EARLIER = "stacks that a process has set up before the trace cannot be distinguished"
OPEN = "calls that do not return on the stack where they seem to be made end open"


def add(
    plan: Plan,
    images: Sequence[Image],
    others: Iterable[str] = (),
    own: Iterable[str] = (),
    *,
    earlier: bool = False,
) -> Plan:
    """Return ``plan``, which traces ``images``, with what it does not see of their switches and of
    those of ``others``, files of the same processes, some of which switch by their ``own`` code;
    ``earlier`` says that these may run before the trace."""
    if plan.unseen_switches in ("any", "exchanges"):
        return plan
    opened = [*_opened(others)]
    by_code = [image for image in opened if image.path in own]
    found = next(_unwatched(plan, images, opened, by_code), "")
    if found:
        return doubt(plan, "any", found)
    if earlier and not plan.unseen_switches and any(map(find_jump, (*images, *opened))):
        return doubt(plan, "earlier", EARLIER)
    return plan


def doubt(plan: Plan, switches: UnseenSwitches, reason: str) -> Plan:
    """Return ``plan``, which does not see some ``switches``, besides those that it is known not to
    see."""
    if plan.unseen_switches == "any" and switches == "earlier":
        return plan
    if not any(probe.role == "closes" for probe in plan.probes):
        return replace(plan, unseen_switches=switches)  # its calls end open anyway
    return replace(plan, unseen_switches=switches, notes=(*plan.notes, f"{reason}: {OPEN}"))


def _unwatched(
    plan: Plan, images: Sequence[Image], others: Iterable[Image], own: Iterable[Image]
) -> Iterator[str]:
    """Which files switch stacks where no probe is, as clauses."""
    numbers = {binary.path: number for number, binary in enumerate(plan.binaries)}
    for image in (*images, *own):
        number = numbers.get(image.path)
        if plan.binaries[number].go if number is not None else image not in own:
            continue
        at = [p.site.address for p in plan.probes if p.binary == number and p.role == "switch"]
        try:
            table = image.once(symbols.read)
        except BinaryError:  # only its markers are traced, or nothing
            place = stack_switches.first_unnamed(image) if image in own else None
        else:
            place = stack_switches.find_unseen(image, table, at)
        if place is not None:
            yield f"{image.path} {HAS} ({place:#x})"
    for image in (*images, *others):
        name = offered_name(image)
        if name and not _is_watched(plan, numbers.get(image.path), image):
            yield f"{image.path} {HAS} ({name})"


def _is_watched(plan: Plan, number: int | None, image: Image) -> bool:
    """Whether something reports the stacks of a file that is known by name to switch them."""
    roles = {probe.role for probe in plan.probes if probe.binary == number}
    if not roles.isdisjoint(_WATCHED):
        return True
    # By handlers on stacks of their own, which they leave and come back to, as GNU Pth.
    return "signal stack" in roles and bool(find_jump(image))


def _opened(paths: Iterable[str]) -> Iterator[Image]:
    for path in paths:
        with suppress(BinaryError):  # replaced since
            yield Image.open(path)


def offered_name(image: Image) -> str:
    """Return a name of a library of fibers that a file has the code of, or ``""``."""
    dynamic = image.once(Dynamic)
    if SYSTEM.match(dynamic.soname) or RARELY.match(dynamic.soname):
        return ""
    names = {*dynamic.exports.wanted(_WANTED)}
    if image.has_symbol_table:
        try:
            own = image.once(symbols.read).functions.wanted(_WANTED)
        except BinaryError:
            own = ()
        names.update(name for f in own for name in (f.name, *f.aliases))
    return min(names & FIBERS, default="")
