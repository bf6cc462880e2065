"""What speaks against uretprobes where the user asks for them (``--returns uretprobe``).

A uretprobe replaces the return address on the stack while a call runs. Code that reads it, leaves
calls or switches stacks goes wrong by that. This is a check by names alone, of the files that the
traced processes map: it finds the usual reasons, not all. Nobody gets a uretprobe unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.go.build import is_go
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError, UsageError, option
from lbtrace.plan.known_names import SYSTEM
from lbtrace.plan.processes import mapped_paths
from lbtrace.plan.selection import Selection
from lbtrace.plan.uretprobe_names import ALTERNATE, HAZARDS
from lbtrace.system.lookups import remembering

GO = "Go moves its stacks"

_WHY = {name: why for why, names in reversed(HAZARDS.items()) for name in names}
_WANTED = Wanted(_WHY)
_IN_STATIC = re.compile(r"_Unwind_|__g(xx|cc)_personality|_?(sig)?longjmp|dl(v?sym|m?open)")
"""What every static program has a copy of, used or not: that tells nothing."""


def check(images: Sequence[Image], selection: Selection) -> list[str]:
    """Return warnings about uretprobes that the user asks for. Raises `UsageError` where they would
    harm: by what is known of the kernel and of other processes, or by names, unless the user
    insists (``--unsafe``)."""
    library = next((image.path for image in images if not image.is_program), "")
    if selection.other_processes and library:
        why = f"return addresses would be replaced in every process with {library}"
        raise _refusal(why, f"leave {option('returns')} out")
    if selection.hazard:
        raise _refusal(selection.hazard, f"leave {option('returns')} out")
    found = [*survey(images, selection)]
    if found and not selection.unsafe:
        how = f"leave {option('returns')} out, or add {option('unsafe')} to risk it"
        raise _refusal(found[0], how)
    return [f"uretprobes may crash what is traced: {each}" for each in found]


def _refusal(why: str, hint: str) -> UsageError:
    return UsageError(f"{option('returns', 'uretprobe')} may crash what is traced: {why}", hint)


def survey(images: Sequence[Image], selection: Selection) -> Iterator[str]:
    """Yield what speaks against uretprobes in the processes that run ``images``, by names."""
    library = next((image.path for image in images if not image.is_program), "")
    if library and selection.any_program:
        yield f"any program may load {library}"
    if selection.watched:
        yield selection.watched
    running = mapped_paths(images, selection.mapped_files)
    paths = dict.fromkeys(chain((i.path for i in images), running))
    found = [(path, _names(path)) for path in paths]
    for why in (*HAZARDS, GO):
        if why == ALTERNATE and selection.altstack_checked:  # the session's program refuses there
            continue
        for path, names in found:
            if name := names.get(why):
                yield f"{why} ({path} has {name})"
                break


@remembering(512)
def _names(path: str) -> dict[str, str]:
    """What speaks against uretprobes in a file, each with a name that shows it."""
    try:
        image = Image.open(path)
        dynamic = image.once(Dynamic)
    except BinaryError:
        return {}
    if SYSTEM.match(dynamic.library):
        return {}
    found = dynamic.imports.wanted(_WANTED)
    try:
        own = image.once(symbols.read).functions.wanted(_WANTED)
    except BinaryError:
        own = ()
    names = {name for function in own for name in (function.name, *function.aliases)}
    if not dynamic.needed:
        names = {name for name in names if not _IN_STATIC.match(name)}
    known = {_WHY[name]: name for name in sorted(found | names, reverse=True) if name in _WHY}
    return known | ({GO: "a Go runtime"} if is_go(image) else {})
