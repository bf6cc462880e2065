"""From what the user names to the files to trace, open."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from lbtrace.elf.image import Image, is_32_bit
from lbtrace.elf.loaded_files import Closure, closure, interpreter
from lbtrace.errors import TargetError, UsageError, option
from lbtrace.model import Target
from lbtrace.system.process import check_pid
from lbtrace.system.procfs import directory_of
from lbtrace.targets.command import find_command


class OpenedImages(Struct):
    """The images to trace, what the user should know of them, and those that are ``marked``, of
    which only markers are traced."""

    images: list[Image]
    notes: list[str]
    marked: Sequence[Image] = ()


def open_images(target: Target, names: Sequence[str]) -> OpenedImages:
    """Return the files ``names`` as the processes of ``target`` know them; without names, their
    programs. What several know as the same may be other files.

    Raises `UsageError` where nothing is named, `CommandError` where no command has that
    name, `TargetError` where the process cannot be traced, `BinaryError` where a file cannot.
    """
    if target.pids:
        # Imported here because only running processes have mapped files.
        from lbtrace.targets.mapped_files import open_mapped, open_program

        images, notes = dict[tuple[int, int], Image](), list[str]()
        for pid in target.pids:
            check_pid(pid)
            for opened in [open_mapped(pid, name) for name in names] or [open_program(pid)]:
                images.setdefault(opened.image.file.identity, opened.image)
                notes += opened.notes
        return OpenedImages(list(images.values()), notes)
    if target.command:
        program = find_command(*target.command)
        names = names or [program]
    if not names and target.every:
        raise UsageError(
            f"{option('all')} is about system calls, tracepoints and functions of the kernel",
            f"name a file whose functions are traced in every process: {option('binary', 'PATH')}",
        )
    if not names:
        raise UsageError(
            "nothing to trace is named",
            f"give {option('binary', 'PATH')}, {option('pid', 'PID')}, or a command to start",
        )
    return OpenedImages([Image.open(name) for name in names], [])


def warn_32_bit(target: Target) -> list[str]:
    """Return a note that the command or process is a 32-bit program, if it is: probes in files and
    on system calls see only 64-bit ones."""
    programs = [interpreter(find_command(*target.command))] if target.command else []
    for pid in target.pids:
        with suppress(OSError):
            programs.append(os.readlink(f"{directory_of(pid)}/exe"))
    return [
        f"{program} is a 32-bit program, in which nothing is traced: only 64-bit programs that it"
        " starts may run what is named"
        for program in dict.fromkeys(programs)
        if program and is_32_bit(program)
    ]


def find_mapped_files(target: Target) -> Closure | None:
    """Return what the processes of ``target`` map, traced or not: what the loader brings with the
    command, in the environment that it gets, or what any of the processes has mapped. None where
    that may be anything."""
    if target.command:
        return closure(target.command[0], os.environ)
    if not target.pids:
        return None
    # Imported here because only running processes have mapped files.
    from lbtrace.targets.mapped_files import mapped_files

    try:
        files = [file for pid in target.pids for file in mapped_files(pid)]
    except TargetError:  # what needs it says so
        return None
    paths = {file.path: file.path if file.is_at(file.path) else file.entry for file in files}
    unseen = [path for path, opened in paths.items() if not os.access(opened, os.R_OK)]
    return Closure(tuple(p for path, p in paths.items() if path not in unseen), tuple(unseen))
