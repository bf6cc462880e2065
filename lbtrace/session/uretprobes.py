"""What speaks against uretprobes in a target, whether they are asked for or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.model import Target
from lbtrace.plan import Selection, uretprobe_guard
from lbtrace.targets import seccomp, watchers
from lbtrace.targets.abilities import find_abilities
from lbtrace.targets.images import find_mapped_files
from lbtrace.targets.reach import find_reach


def find_objections(images: Sequence[Image], target: Target) -> Iterator[str]:
    """Yield what speaks against uretprobes on functions of ``images`` in ``target``."""
    around = find_mapped_files(target)
    if hazard := seccomp.hazard():
        yield hazard
    watcher = watchers.find_watcher(target, around)
    reach = find_reach(target, None, find_abilities(target, around))
    selection = Selection(
        ("*",),
        mapped_files=around,
        watched=watchers.object_to_uretprobes(watcher),
        altstack_checked=reach.guarded,
        any_program=reach.any_program,
    )
    yield from uretprobe_guard.survey(images, selection)
