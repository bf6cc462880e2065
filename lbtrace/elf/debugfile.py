"""Where the debug information of an image is: in itself, or in a file of its own.

Looked for as gdb does ("Debugging Information in Separate Files"): by
build-id and by the name in ``.gnu_debuglink``, whose checksum must fit, below
/usr/lib/debug and beside the image; then, where DEBUGINFOD_URLS is set, at
those servers, whose answers are kept where debuginfod-find(1) keeps them.
"""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from lbtrace.elf.image import Image

ROOT = "/usr/lib/debug"
PATIENCE = 10.0
"""Seconds a server may take to answer, unless DEBUGINFOD_TIMEOUT says otherwise."""

SLOWEST = 100 << 10
"""Bytes that must have come by then, as debuginfod-find(1) demands."""

MISSED = 600.0
"""Seconds for which servers that had nothing are not asked again."""

LARGEST = 4 << 30
"""Bytes of debug information taken from a server."""

BUILD_ID = re.compile(r"[0-9a-f]{8,}")


class Found(NamedTuple):
    """A file with debug information, mapped."""

    path: str
    data: mmap.mmap


def find(image: Image) -> Found | None:
    """The file that holds the DWARF of ``image``; None where there is none.

    Raises nothing: what cannot be read or does not belong to the image counts
    as missing.
    """
    if image.has_debug_info:
        return Found(image.path, image.data)
    for path, checksum in _candidates(image):
        found = _mapped(path)
        if found is not None and (checksum is None or crc32(found) == checksum):
            return Found(path, found)
    if os.environ.get("DEBUGINFOD_URLS") and BUILD_ID.fullmatch(image.build_id):
        kept = _downloaded(image.build_id)
        found = None if kept is None else _mapped(kept)
        return Found(kept, found) if kept and found else None
    return None


def _candidates(image: Image) -> Iterator[tuple[str, int | None]]:
    """Paths, each with the checksum its file must have, where one is known."""
    if BUILD_ID.fullmatch(image.build_id):
        yield f"{ROOT}/.build-id/{image.build_id[:2]}/{image.build_id[2:]}.debug", None
    section = image.section(".gnu_debuglink")
    if section is None or section.size < 8:
        return
    content = image.data[section.offset : section.offset + section.size]
    name = content.split(b"\0", 1)[0]
    if not name or b"/" in name:
        return
    checksum = int.from_bytes(content[-4:], "little")
    directory = os.path.dirname(os.path.realpath(image.path))
    for place in (directory, f"{directory}/.debug", f"{ROOT}{directory}"):
        path = os.path.join(place, os.fsdecode(name))
        if os.path.realpath(path) != os.path.realpath(image.path):
            yield path, checksum


def _mapped(path: str) -> mmap.mmap | None:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # ValueError: the file is empty
        return None


def _downloaded(build_id: str) -> str | None:
    """The path of the debug file that a server has for ``build_id``."""
    cache = os.environ.get("DEBUGINFOD_CACHE_PATH")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = (Path(cache) if cache else home / "debuginfod_client") / build_id
    kept = directory / "debuginfo"
    if kept.is_file():
        status = kept.stat()
        if status.st_size:
            return str(kept)
        if time.time() - status.st_mtime < MISSED:  # as debuginfod-find(1) notes it
            return None
    for url in os.environ["DEBUGINFOD_URLS"].split():
        try:
            if _fetched(f"{url.rstrip('/')}/buildid/{build_id}/debuginfo", kept):
                return str(kept)
        except (OSError, ValueError):  # URLError is an OSError: the next server may know
            continue
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch()
    return None


def _fetched(url: str, into: Path) -> bool:
    """Whether ``url`` could be copied to ``into``, which appears only when it is whole."""
    import tempfile  # late, as is urlopen: slow to import, seldom needed
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        return False
    patience = float(os.environ.get("DEBUGINFOD_TIMEOUT") or PATIENCE)
    into.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(url, timeout=patience) as answer:
        descriptor, part = tempfile.mkstemp(dir=into.parent)
        try:
            size, start = 0, time.monotonic()
            with open(descriptor, "wb") as file:
                while chunk := answer.read1(1 << 20):
                    size += len(chunk)
                    late = time.monotonic() - start > patience and size < SLOWEST
                    if size > LARGEST or late:
                        return False
                    file.write(chunk)
            os.replace(part, into)
        finally:
            Path(part).unlink(missing_ok=True)
    return True
