"""Finds a program or library that is given by its name alone.

A program is found through PATH, a library as ld.so(8) finds it: in
LD_LIBRARY_PATH, in the cache that ldconfig(8) writes, in the standard
directories. The cache's layout is that of glibc's ``elf/dl-cache.h``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from struct import Struct as Layout

from lbtrace.errors import BinaryError
from lbtrace.machine import MACHINES, Machine
from lbtrace.system.lookups import note
from lbtrace.text import in_quotes

CACHE = "/etc/ld.so.cache"
CACHE_MAGIC = b"glibc-ld.so.cache1.1"
CACHE_HEADER = Layout("<20sII20x")
CACHE_ENTRY = Layout("<iIIIQ")

LIBRARY = r"lib.*|ld-.*|.*\.so(\.[0-9.]+)?"


def find(name: str) -> str:
    """Return the path of the file that ``name`` means.

    A name with a slash is the path itself. Raises `BinaryError` if a bare
    name is neither a program, a library nor a file of the current directory.
    """
    if "/" in name:
        return name
    program = _program(name) if name else ""
    if program:
        return program
    if re.fullmatch(LIBRARY, name) and (library := _library(name)):
        return library
    note(name)
    if name and os.path.exists(name):
        return name
    raise BinaryError(
        f"{in_quotes(name)}: no such program in PATH, no such library",
        "give its path: ./name or /dir/name",
    )


def _program(name: str) -> str:
    """The first executable file of that name in PATH."""
    for directory in os.get_exec_path():
        path = f"{directory or '.'}/{name}"
        note(path)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _library(name: str) -> str:
    """A library by soname, or without its version; of several the newest."""
    for found in (_from_directories(_search_path(), name), _from_cache(name)):
        if found:
            return found
    return _from_directories(standard_directories(), name)


def _from_cache(name: str) -> str:
    entries = dict(cache_entries())
    best = _best(entries, name)
    return entries[best] if best else ""


def _from_directories(directories: list[str], name: str) -> str:
    for directory in directories:
        note(directory)
        try:
            best = _best(os.listdir(directory), name)
        except OSError:
            continue
        if best:
            return f"{directory}/{best}"
    return ""


def _best(names: Iterable[str], name: str) -> str:
    candidates = (n for n in names if n == name or n.startswith(name + ".so"))
    return max(candidates, key=lambda n: (n == name, n == name + ".so", _version(n)), default="")


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", name.partition(".so")[2]))


def _search_path() -> list[str]:
    return [d for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d]


def standard_directories() -> list[str]:
    """Return the directories that ld.so(8) searches by default, Debian's for this machine first."""
    triplet = f"{os.uname().machine}-linux-gnu"
    roots = ("/lib", "/usr/lib", "/usr/local/lib")
    return [f"{r}/{triplet}" for r in roots] + ["/lib64", "/usr/lib64", *roots]


def cache_entries() -> Iterator[tuple[str, str]]:
    """Yield names and paths of the cache, for this machine; variants for newer processors left
    out."""
    note(CACHE)
    try:
        with open(CACHE, "rb") as file:
            data = file.read()
    except OSError:
        return
    start = data.find(CACHE_MAGIC)
    if start < 0 or start + CACHE_HEADER.size > len(data):
        return
    data = data[start:]
    count = CACHE_HEADER.unpack_from(data)[1]
    end = CACHE_HEADER.size + count * CACHE_ENTRY.size
    if end > len(data):
        return
    here = os.uname().machine
    if here not in {row.name for row in MACHINES}:
        return
    wanted = Machine(here).linking.CACHE_FLAGS
    for flags, key, value, _, hwcap in CACHE_ENTRY.iter_unpack(data[CACHE_HEADER.size : end]):
        if flags == wanted and not hwcap:
            yield _text(data, key), _text(data, value)


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.find(b"\0", offset)].decode("utf-8", "replace")
