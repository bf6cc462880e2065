"""Libraries that a program may load by dlopen(3), by where they lie: those of a JDK in ``lib`` and
``lib/server`` beside its ``bin``, modules of python3.11 in ``lib/python3.11/lib-dynload``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from lbtrace.elf.loaded_files import closure

SHARED = frozenset({"/", "/usr", "/usr/local"})
"""Directories whose ``lib`` is not of a single program."""


def closure_beside(command: str, environment: Mapping[str, str]) -> Sequence[str]:
    """Return the paths of these libraries, and of those that they need."""
    program = closure(command, environment).program
    return closure(program, environment, more=beside(program)).paths


def beside(program: str) -> Iterator[str]:
    """Yield the paths of libraries that lie where only the file ``program``, or what it was
    installed with, looks for some."""
    path = os.path.realpath(program)
    prefix = os.path.dirname(os.path.dirname(path))
    home = os.path.join(prefix, "lib")
    for directory in ([] if prefix in SHARED else [home]) + [
        os.path.join(home, os.path.basename(path))
    ]:
        directories = [directory]
        with suppress(OSError):
            directories += sorted(e.path for e in os.scandir(directory) if e.is_dir())
        for each in directories:
            with suppress(OSError):
                yield from sorted(e.path for e in os.scandir(each) if ".so" in e.name)
