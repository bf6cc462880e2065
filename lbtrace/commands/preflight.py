"""``lbtrace doctor --binary``: what is dangerous about a binary, and what is done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from lbtrace.elf.image import Image
from lbtrace.model import Target
from lbtrace.plan import Selection, uretprobe_hazards
from lbtrace.plan.strategies import choose_strategies
from lbtrace.targets import watchers
from lbtrace.targets.abilities import find_abilities
from lbtrace.targets.images import beside
from lbtrace.targets.reach import find_reach


class Check(Struct, frozen=True):
    """One line of a report. ``state`` is ``ok``, ``missing``, ``absent`` (lbtrace works
    without it), ``unknown`` or ``warning``."""

    name: str
    state: str
    text: str


def check_binary(name: str) -> Iterator[Check]:
    """Yield the report on the binary ``name``: as a command, if it is a program, else in every
    process. Raises `BinaryError` where it cannot be traced."""
    image = Image.open(name)
    target = Target(command=(image.path,)) if image.is_program else Target()
    around = beside(target)
    reach = find_reach(target, None, find_abilities(target, around))
    kind = "program" if image.is_program else "library"
    yield Check("binary", "ok", f"{image.path}, a {kind} for {image.machine}")
    if around is None:
        yield Check("maps", "unknown", "any program may load it")
    else:
        count = len(around.paths)
        yield Check("maps", "ok", f"{count:,} file{'s' * (count != 1)} when it starts")
        for missing in around.missing:
            yield Check("maps", "missing", f"{missing} is not found")
    if hazard := watchers.hazard(target, around):
        yield Check("hazard", "warning", hazard)
    for text in uretprobe_hazards.survey(image, around):
        yield Check("hazard", "warning", text)
    selection = Selection(
        ("*",),
        hazard=hazard,
        beside=around,
        strangers=reach.strangers,
        shared=reach.shared,
        altstack_checked=reach.guarded,
    )
    ways = Counter(way for _, way in choose_strategies(image, selection))
    total = ways.total()
    for way, count in ways.most_common():
        why = f": {way.reason}" if way.reason else ""
        yield Check("returns", "ok", f"{count:,} of {total:,} functions by {way.kind}{why}")
