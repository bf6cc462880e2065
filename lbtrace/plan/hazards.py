"""Why return addresses must stay as they are in a binary's processes.

A program's own code tells it (`lbtrace.plan.switching`). A library's functions
are called by programs that throw, switch stacks or end threads through them:
of those the ones that are known are asked, and where any program may come, the
answer is that nobody knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError
from lbtrace.plan import switching
from lbtrace.plan.callgraph import Part

EXECUTE = (
    *(b"execve", b"execv", b"execvp", b"execvpe", b"execl", b"execle", b"execlp", b"execveat"),
    *(b"posix_spawn", b"posix_spawnp", b"popen", b"system"),
)
"""What starts other programs, among the names of the dynamic symbols."""

ANY_PROGRAM = "any program may run it, one that throws as well"


def reasons(
    parts: Sequence[Part], tables: Sequence[Symbols], beside: Sequence[str] | None
) -> list[str]:
    """Why return addresses must stay as they are in the processes that run each part,
    which may be those that run others as well; ``""`` where nothing is known against
    uretprobes.

    ``beside`` are the paths of what runs there without being traced, None where that
    may be anything.
    """
    own = [
        switching.reason(part.image, table, part.stubs)
        for part, table in zip(parts, tables, strict=True)
    ]
    found: list[tuple[Image | None, str]] = []
    found += ((part.image, why) for part, why in zip(parts, own, strict=True) if why)
    if any(not part.image.is_program for part, why in zip(parts, own, strict=True) if not why):
        found += _beside(beside, parts)
    return [why or _others(part.image, found) for part, why in zip(parts, own, strict=True)]


def _others(image: Image, found: Sequence[tuple[Image | None, str]]) -> str:
    """The first reason of what may be in one process with ``image``."""
    for other, why in found:
        if not (image.is_program and (other is None or other.is_program)):
            return why
    return ""


def _beside(
    paths: Sequence[str] | None, parts: Sequence[Part]
) -> Iterator[tuple[Image | None, str]]:
    """What the binaries at ``paths`` that are not among ``parts`` have against
    uretprobes; None stands for a program that nobody knows."""
    if paths is None:
        yield None, ANY_PROGRAM
    known = [part.image.path for part in parts]
    for path in paths or ():
        try:
            image = Image.open(path)
        except BinaryError:
            yield None, f"{ANY_PROGRAM}: {path} is a script"
            continue
        if starter := _starter(image):
            yield None, f"{ANY_PROGRAM}: {path} starts others ({starter})"
        if not any(os.path.samefile(image.path, other) for other in known):
            yield from _against(image)


def _against(image: Image) -> Iterator[tuple[Image, str]]:
    try:
        why = switching.reason(image, symbols.read(image), plt.stubs(image))
    except BinaryError:  # without any symbols
        return
    if why:
        yield image, why


def _starter(image: Image) -> str:
    """The function by which a program may start others, or ``""``. (Linkers keep names that
    end others as their ends.)"""
    section = image.section(".dynstr")
    names = image.content(section).split(b"\0") if section else []
    return next((e.decode() for e in EXECUTE for name in names if name.endswith(e)), "")
