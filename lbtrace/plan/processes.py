"""The files that the traced processes map, traced or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure, closure


class Process(Struct, frozen=True):
    """What one process maps."""

    paths: tuple[str, ...]


def processes(images: Sequence[Image], mapped_files: Closure | None) -> Iterator[Process]:
    """Yield the processes of the programs among ``images``, and the one that maps ``mapped_files``.
    The libraries among them may be in any."""
    libraries = [image.path for image in images if not image.is_program]
    programs = [image for image in images if image.is_program]
    with_libraries = _loaded(libraries)
    if mapped_files is not None and mapped_files.paths:
        yield Process((*mapped_files.paths, *with_libraries.paths))
        known = set(map(identity_of, mapped_files.paths))
        programs = [image for image in programs if image.file.identity not in known]
    for program in programs:
        loaded = closure(program.path, os.environ)
        yield Process((*loaded.paths, *with_libraries.paths))
    if not programs and not (mapped_files and mapped_files.paths):
        yield Process(with_libraries.paths)


def _loaded(libraries: Sequence[str]) -> Closure:
    """What comes with ``libraries`` where a process loads them."""
    if not libraries:
        return Closure()
    return closure(libraries[0], os.environ, more=libraries[1:])


def identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
