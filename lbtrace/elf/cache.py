"""What is worth keeping between runs: indexes and unpacked sections of debug information.

It lies in the user's cache directory (XDG Base Directory Specification),
``$XDG_CACHE_HOME/lbtrace`` or ``~/.cache/lbtrace``. Nothing depends on it: a
directory that cannot be written, a file that is damaged or gone mean that the
work is done again. Files appear whole, by renaming, so any number of processes
may read and write at once.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout
from struct import error as LayoutError
from typing import BinaryIO, NamedTuple

HEADER = Layout("<8sQI")
"""Magic with the version of the format, size and checksum (CRC-32) of what follows."""

MAGIC = b"lbtrace\x01"

LIMIT = 1 << 30
"""Bytes that all files may take together; the longest unused go first."""

STALE = 3600.0
"""Seconds after which a half-written file belongs to a process that died."""


class Kept(NamedTuple):
    """Content of a file of the cache: the bytes of ``data`` from ``start`` on."""

    data: mmap.mmap
    start: int


class Cache:
    """Files that concern one file with debug information."""

    def __init__(self, directory: Path | None, identity: str) -> None:
        """``identity`` changes whenever the file does; without a directory nothing is kept."""
        self._directory = directory
        self._identity = identity

    def load(self, what: str) -> Kept | None:
        """What was kept as ``what``, None where nothing was or it is damaged."""
        path = self._path(what)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                magic, size, checksum = HEADER.unpack_from(data)
                with memoryview(data)[HEADER.size :] as content:
                    whole = magic == MAGIC and size == len(content)
                    if not whole or zlib.crc32(content) != checksum:
                        return None
            os.utime(path)
        except (OSError, ValueError, LayoutError):  # not there, empty, too short
            return None
        return Kept(data, HEADER.size)

    def store(self, what: str, pieces: Iterable[bytes]) -> Kept | None:
        """Keeps ``pieces``, one after the other, as ``what``, and returns them as they lie
        there; None where that is not possible, with some of them used up.
        """
        path = self._path(what)
        if path is None:
            return None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.parent.stat().st_uid != os.geteuid():
                return None  # somebody else's, as under sudo
            descriptor, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
            try:
                with open(descriptor, "w+b") as file:
                    data = _filled(file, pieces)
                if data is None:
                    os.unlink(part)
                    return None
                os.replace(part, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part)
                raise
            _make_room(path.parent)
        except OSError:
            return None
        return Kept(data, HEADER.size)

    def _path(self, what: str) -> Path | None:
        return self._directory and self._directory / f"{self._identity}{what}"


def _filled(file: BinaryIO, pieces: Iterable[bytes]) -> mmap.mmap | None:
    """The file with ``pieces`` behind a header; None if they are too much."""
    file.write(bytes(HEADER.size))
    size = checksum = 0
    for piece in pieces:
        size += len(piece)
        if size > LIMIT // 2:
            return None
        checksum = zlib.crc32(piece, checksum)
        file.write(piece)
    file.seek(0)
    file.write(HEADER.pack(MAGIC, size, checksum))
    file.flush()
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def directory() -> Path | None:
    """The user's cache directory for lbtrace; None where there is none."""
    # The specification has relative paths ignored.
    home = os.environ.get("XDG_CACHE_HOME") or ""
    base = Path(home) if home.startswith("/") else Path(os.path.expanduser("~")) / ".cache"
    return base / "lbtrace" if base.is_absolute() else None


def of(path: str, build_id: str) -> Cache:
    """The cache for the file ``path``, which belongs to the program of that build-id."""
    try:
        status = os.stat(path)
    except OSError:
        return Cache(None, "")
    name = build_id or f"{status.st_dev:x}-{status.st_ino:x}"
    return Cache(directory(), f"{name}-{status.st_size:x}-{status.st_mtime_ns:x}")


def _make_room(directory: Path) -> None:
    """Removes what was not used for longest, and what was never finished."""
    now = time.time()
    files: list[tuple[float, int, str]] = []
    for entry in os.scandir(directory):
        with suppress(OSError):  # removed by somebody else
            status = entry.stat(follow_symlinks=False)
            if entry.name.endswith(".part") and now - status.st_mtime > STALE:
                os.unlink(entry)
            else:
                files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            return
        with suppress(OSError):
            os.unlink(path)
        total -= size
