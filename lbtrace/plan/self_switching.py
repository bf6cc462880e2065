"""Which files of a process switch stacks by their own code.

Their code is searched, as far as that does not take long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.errors import BinaryError
from lbtrace.machine.code import StackSwitch
from lbtrace.plan import stack_switches
from lbtrace.plan.known_names import CALLED, SYSTEM
from lbtrace.plan.processes import identity_of
from lbtrace.plan.unwatched_switches import RARELY
from lbtrace.system.lookups import remembering

MOST = 1 << 22
"""Bytes of code, in all, that are searched: a MB takes some 10 ms. The smallest files come first,
as libraries of fibers are small."""


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield those of ``paths`` whose code seems to switch stacks by itself, and to come back:
    libffi calls functions on what its caller reserved, on the same stack."""
    sizes = [(size, path) for path in paths if (size := _code_size(path, identity_of(path)))]
    left = MOST
    for size, path in sorted(sizes):
        left -= size
        if left < 0:
            return
        if any(switch.keeps for switch in own_switches(path, identity_of(path))):
            yield path


@remembering(512)
def own_switches(path: str, _identity: object) -> tuple[StackSwitch, ...]:
    """Return where code of a file seems to take up other stacks; large code takes long to
    search."""
    try:
        return tuple(stack_switches.similar(Image.open(path)))
    except BinaryError:  # replaced since
        return ()


@remembering(512)
def _code_size(path: str, _identity: object) -> int:
    """The bytes of code of a file, none of libraries of the system and of languages, which many
    programs have."""
    try:
        image = Image.open(path)
        soname = image.once(Dynamic).soname
    except BinaryError:
        return 0
    if any(known.match(soname) for known in (SYSTEM, RARELY, CALLED)):
        return 0
    return sum(s.size for s in image.sections if s.flags & SHF_EXECINSTR)
