"""Keeps plans, and indexes and unpacked sections of debug information, between runs.

The cache is in the user's cache directory (XDG Base Directory Specification),
``$XDG_CACHE_HOME/lbtrace`` or ``~/.cache/lbtrace``. Nothing depends on it: if a directory cannot be
written, or a file is damaged or gone, the work is done again. Complete files are renamed into
place, so any number of processes may read and write at once.

Root reads it, so no other user may influence it: every directory above it belongs to this user or
to root and is not writable for others, the directory and its files belong to this user, and none of
them is reached through a link. A home directory of somebody else, as sudo(8) may leave it, or that
does not exist is not used; the user's own is.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from struct import Struct as Layout
from struct import error as LayoutError
from typing import BinaryIO

from msgspec import Struct

from lbtrace.files.regular import CAREFULLY, open_regular

HEADER = Layout("<8sQI")
"""Magic with the version of the format, size and checksum (CRC-32) of what follows."""

MAGIC = b"lbtrace\x02"

LIMIT = 1 << 30
"""Bytes that all files may take together; the longest unused go first."""

MOST = 4096
"""Files that there may be."""

STALE = 3600.0
"""Seconds after which a half-written file belongs to a process that died."""

OWN = r"[0-9a-f]+(-[0-9a-f]+)+\..+|\w+\.part"
"""The pattern of the names of files that lbtrace makes here; others are left alone."""

OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""Permissions that only the owner may have on a directory or a file of the cache."""


class CacheEntry(Struct, frozen=True):
    """Content of a file of the cache: the bytes of ``data`` from ``start`` on."""

    data: mmap.mmap
    start: int


class Cache:
    """The cache of what belongs to one identity: of a file with debug information, or a request."""

    def __init__(self, directory: str | None, identity: str) -> None:
        """``identity`` changes whenever that does; without a directory nothing is kept."""
        self._directory = directory
        self._identity = identity

    def load(self, what: str) -> CacheEntry | None:
        """Return what was stored as ``what``; None where nothing was, or it is damaged."""
        try:
            with _opened(self._directory) as directory:
                name = self._name(what)
                descriptor, status = open_regular(
                    name, os.O_RDONLY | os.O_NOFOLLOW, directory=directory
                )
                with open(descriptor, "rb") as file:
                    if status.st_uid != os.geteuid() or status.st_mode & OTHERS:
                        return None
                    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                if not _is_whole(data, name):
                    return None
                with suppress(OSError):  # a file system that is only read
                    os.utime(name, dir_fd=directory, follow_symlinks=False)
        except (OSError, ValueError, LayoutError):  # not there, empty, too short
            return None
        return CacheEntry(data, HEADER.size)

    def store(self, what: str, pieces: Iterable[bytes]) -> CacheEntry | None:
        """Store ``pieces``, one after the other, as ``what``, and return the stored bytes; None
        where that is not possible, after taking some of the pieces.
        """
        from lbtrace.files.new_file import NewFile  # imported here: most starts store nothing

        try:
            _make(self._directory)
            with _opened(self._directory) as directory:
                name = self._name(what)
                with NewFile(directory) as made:
                    with open(made.descriptor, "w+b", closefd=False) as file:
                        data = _filled(file, pieces, name)
                    if data is not None:
                        made.keep(name)
                _make_room(directory)
        except OSError:
            return None
        return None if data is None else CacheEntry(data, HEADER.size)

    def _name(self, what: str) -> str:
        return f"{self._identity}{what}"


def _is_whole(data: mmap.mmap, name: str) -> bool:
    """Whether a file of the cache is what was stored under ``name``."""
    magic, size, checksum = HEADER.unpack_from(data)
    with memoryview(data)[HEADER.size :] as content:
        whole = magic == MAGIC and size == len(content)
        return bool(whole) and zlib.crc32(content, zlib.crc32(name.encode())) == checksum


@contextmanager
def _opened(directory: str | None) -> Iterator[int]:
    """A descriptor of the cache's directory. Raises `OSError` where it cannot be trusted."""
    if directory is None:
        raise FileNotFoundError
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | CAREFULLY
    descriptor = os.open(directory, flags)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & OTHERS:
            raise PermissionError(f"{directory} is not this user's alone")
        yield descriptor
    finally:
        os.close(descriptor)


def _make(directory: str | None) -> None:
    """Raises `OSError` where that is not possible."""
    if directory is None:
        raise FileNotFoundError
    os.makedirs(directory, mode=0o700, exist_ok=True)


def _filled(file: BinaryIO, pieces: Iterable[bytes], name: str) -> mmap.mmap | None:
    """The file with ``pieces`` after a header; None if they are too large."""
    file.write(bytes(HEADER.size))
    size, checksum = 0, zlib.crc32(name.encode())
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


def directory() -> str | None:
    """Return the user's cache directory for lbtrace; None where none can be trusted."""
    base = home()
    return base and os.path.join(base, "lbtrace")


def home() -> str | None:
    """Return the user's cache directory; None where none can be trusted."""
    named = os.environ.get("XDG_CACHE_HOME") or ""
    # The specification has relative paths ignored.
    found = trusted(named) if named.startswith("/") else _within(os.path.expanduser("~"))
    return found or _within(_own_home())


def _within(home: str) -> str | None:
    """The cache directory in a home directory, which is there and this user's: none is made."""
    try:
        status = os.stat(home)
    except OSError:
        return None
    mine = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
    return trusted(os.path.join(home, ".cache")) if mine else None


def trusted(path: str) -> str | None:
    """Return the directory ``path``, which need not be there yet, without links in it; None where
    others than this user and root could put something else in its place."""
    real = os.path.realpath(path)
    return real if os.path.isabs(path) and _is_safe(real) else None


def _own_home() -> str:
    """The home directory of the user whose rights this process has, whatever HOME says."""
    import pwd  # imported here because it is seldom needed

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/nonexistent"


def _is_safe(path: str) -> bool:
    """Whether only this user and root can change what ``path``, without links, leads to."""
    mine = (0, os.geteuid())
    paths = [path]
    while (parent := os.path.dirname(paths[-1])) != paths[-1]:  # POSIX keeps "//" at the start
        paths.append(parent)
    for each in paths:
        try:
            status = os.lstat(each)
        except FileNotFoundError:
            continue
        except OSError:
            return False
        # In a sticky directory others cannot replace what is not theirs (unlink(2)).
        open_to_all = status.st_mode & OTHERS and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in mine or open_to_all or not stat.S_ISDIR(status.st_mode):
            return False
    return True


def of(status: os.stat_result | None) -> Cache:
    """Return the cache for a file of that status, of the descriptor that it is read through; for
    None, one that keeps nothing.

    The time of the last change to the inode cannot be set by its owner (utimensat(2)),
    so that no file passes for another.
    """
    if status is None:
        return Cache(None, "")
    parts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return Cache(directory(), "-".join(f"{part:x}" for part in parts))


def _make_room(directory: int) -> None:
    """Remove the least recently used files and unfinished ones, but only files that lbtrace
    made."""
    from lbtrace.files.new_file import PART  # imported here, as above

    now = time.time()
    files: list[tuple[float, int, str]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(OSError):  # removed by somebody else
                status = entry.stat(follow_symlinks=False)
                mine = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
                if not mine or not re.fullmatch(OWN, entry.name):
                    continue
                if not entry.name.endswith(PART):
                    files.append((status.st_mtime, status.st_size, entry.name))
                elif now - status.st_mtime > STALE:
                    os.unlink(entry.name, dir_fd=directory)
    total = sum(size for _, size, _ in files)
    for number, (_, size, name) in enumerate(sorted(files)):
        if total <= LIMIT and len(files) - number <= MOST:
            return
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        total -= size
