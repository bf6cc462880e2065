"""Which files of a process switch stacks by their own code.

The code of most is searched to decide about uretprobes (`lbtrace.plan.file_hazards`), but not where
a name tells of a hazard: of C++ nearly always, as of libraries of fibers in C++. Those are searched
here, as far as that does not take long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.errors import BinaryError
from lbtrace.plan import file_hazards
from lbtrace.plan.hazard_table import CALLED, SYSTEM
from lbtrace.plan.unwatched_switches import RARELY
from lbtrace.plan.uretprobe_hazards import identity_of
from lbtrace.system.lookups import remembering

MOST = 1 << 22
"""Bytes of code, in all, that are searched where names tell of hazards: a MB takes some 10 ms. The
smallest files come first, as libraries of fibers are small."""


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield those of ``paths`` whose code seems to switch stacks by itself, and to come back:
    libffi calls functions on what its caller reserved, on the same stack."""
    sizes: list[tuple[int, str]] = []
    for path in paths:
        identity = identity_of(path)
        may = file_hazards.may_switch_itself(path, identity)
        if may == "seems":
            sizes.append((0, path))
        elif may and (size := _code_size(path, identity)):
            sizes.append((size, path))
    left = MOST
    for size, path in sorted(sizes):
        left -= size
        if left < 0:
            return
        if any(switch.keeps for switch in file_hazards.own_switches(path, identity_of(path))):
            yield path


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
