"""``lbtrace doctor --binary``: what is dangerous about a binary, and what is done about it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from lbtrace.elf.image import Image
from lbtrace.model import Target
from lbtrace.session.uretprobes import find_objections
from lbtrace.targets.images import find_mapped_files


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
    around = find_mapped_files(target)
    kind = "program" if image.is_program else "library"
    yield Check("binary", "ok", f"{image.path}, a {kind} for {image.machine}")
    if around is None:
        yield Check("maps", "unknown", "any program may load it")
    else:
        count = len(around.paths)
        yield Check("maps", "ok", f"{count:,} file{'s' * (count != 1)} when it starts")
        for missing in around.missing:
            yield Check("maps", "missing", f"{missing} is not found")
    yield Check("returns", "ok", "seen at the exits of functions, which changes no stack")
    objections = [*find_objections([image], target)]
    for text in objections:
        yield Check("uretprobe", "warning", text)
    if not objections:
        yield Check("uretprobe", "ok", "nothing known speaks against --returns uretprobe")
