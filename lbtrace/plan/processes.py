"""The files that the traced processes map, traced or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure, closure


def mapped_paths(images: Sequence[Image], mapped_files: Closure | None) -> Iterator[str]:
    """Yield the files of processes that run the programs among ``images``, and of the one that maps
    ``mapped_files``; the libraries among them may be in any."""
    programs = [image for image in images if image.is_program]
    if mapped_files is not None and mapped_files.paths:
        yield from mapped_files.paths
        known = set(map(identity_of, mapped_files.paths))
        programs = [image for image in programs if image.file.identity not in known]
    for program in programs:
        yield from closure(program.path, os.environ).paths
    libraries = [image.path for image in images if not image.is_program]
    if libraries:
        yield from closure(libraries[0], os.environ, more=libraries[1:]).paths


def identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
