"""Calls of imported functions that pass no stub of the file that makes them.

A probe in a stub of the PLT sees all calls of an import, unless code has its address: compiled with
``-fno-plt``, in a pointer to a function, or from dlsym, which takes its name as a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbtrace.elf import plt
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.errors import BinaryError
from lbtrace.machine.code_scan import find_bytes
from lbtrace.system.lookups import remembering

SHT_PROGBITS, SHF_ALLOC = 1, 2

NAMES = (
    *("swapcontext", "setcontext", "longjmp", "siglongjmp", "pthread_exit", "backtrace"),
    *("_Unwind_RaiseException", "_Unwind_ForcedUnwind", "_Unwind_Backtrace", "sigaltstack"),
)
"""Functions of the C library and of libgcc for which a file may ask though it has no other use of
such: few, as they are searched for in all of its data."""

_ASKING = Wanted(("dlsym", "dlvsym"))

_TABLES = (".eh_frame", ".gcc_except_table")


@remembering(512)
def hides(name: str, path: str, _identity: object) -> bool:
    """Return whether the file at ``path`` may call ``name``, which it uses, where no stub is."""
    try:
        image = Image.open(path)
        stubs = image.once(plt.stubs)
    except BinaryError:
        return False
    dynamic = image.once(Dynamic)
    if any(asked_names(image, (name,))):
        return True
    if name not in dynamic.imports:  # its own, which has a probe
        return False
    return dynamic.has_pointer(name) or not any(
        found == name for _, found in stubs.wanted(Wanted((name,)))
    )


def asked_names(image: Image, names: Iterable[str]) -> Iterator[str]:
    """Yield those of ``names`` for which a file may ask the loader: it has them among its data."""
    if not any(image.once(Dynamic).imports.wanted(_ASKING)):
        return
    content = memoryview(image.data)
    data = [content[start:end] for start, end in _data(image)]
    for name in names:
        if any(any(find_bytes(part, f"{name}\0".encode())) for part in data):
            yield name


def _data(image: Image) -> Iterator[tuple[int, int]]:
    """Where in the file its data is, without the names that the loader knows."""
    if not image.sections:  # nothing says what is data
        yield 0, len(image.data)
    for section in image.sections:
        data = section.type == SHT_PROGBITS and not section.flags & SHF_EXECINSTR
        if data and section.flags & SHF_ALLOC and not section.name.startswith(_TABLES):
            yield section.offset, section.offset + section.size
