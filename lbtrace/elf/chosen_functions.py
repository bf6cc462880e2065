"""Finds the code that the loader chose for functions with several, by the processor: ``memcpy``.

Their symbol (STT_GNU_IFUNC) is that of a resolver, which the loader calls. It chooses alike in all
processes of a machine (unless GLIBC_TUNABLES differ), so this asks the loader of this process. It
knows the C library's, if that is the same file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from lbtrace.elf.image import Image
from lbtrace.system.procfs import read_text


def find(image: Image, names: Iterable[str]) -> dict[str, int]:
    """Return the addresses in ``image`` of the code for functions it exports; none where this
    process has not loaded the file."""
    base = os.path.basename(os.path.realpath(image.path))
    lines = [line.split(maxsplit=5) for line in read_text("/proc/self/maps").splitlines()]
    mappings = [_Mapping(line) for line in lines if os.path.basename(line[-1]) == base]
    loaded = (mapping.path for mapping in mappings if mapping.is_code)
    path = next((path for path in loaded if _is_same(path, image)), "")
    if not path:
        return {}
    import ctypes  # imported here because it takes long

    try:
        library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:  # the loader's own file is not one that it has loaded
        return {}
    found = {}
    for name in names:
        with suppress(AttributeError):
            at = ctypes.cast(library[name], ctypes.c_void_p).value or 0
            offsets = [m.offset(at) for m in mappings if m.path == path and at in m.addresses]
            if offsets:
                found[name] = _address(image, offsets[0])
    return found


def _address(image: Image, offset: int) -> int:
    """The virtual address of the code at ``offset`` in the file."""
    held = (s for s in image.executable_segments if 0 <= offset - s.offset < s.size)
    return next(s.address + offset - s.offset for s in held)


class _Mapping:
    """A line of /proc/PID/maps that names a file (proc_pid_maps(5))."""

    def __init__(self, fields: Sequence[str]) -> None:
        addresses, self._access, start, *_, self.path = fields
        first, _, end = addresses.partition("-")
        self.addresses = range(int(first, 16), int(end, 16))
        self._start = int(start, 16)

    @property
    def is_code(self) -> bool:
        """Whether it is of a file that the loader has mapped, not one that is read."""
        return "x" in self._access

    def offset(self, address: int) -> int:
        """Return where in the file the byte at ``address`` is."""
        return address - self.addresses.start + self._start


def _is_same(path: str, image: Image) -> bool:
    with suppress(OSError):
        status = os.stat(path)
        return (status.st_dev, status.st_ino) == image.file.identity
    return False
