"""The files that a running process has mapped, and how to open exactly those.

What a process runs need not lie at its path any more: an upgrade has put another
file there, or removed it; in a container the path leads to something else here;
a memfd has none. The kernel opens the mapped file itself through
``/proc/PID/map_files`` and ``/proc/PID/exe`` (proc_pid_map_files(5)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from msgspec import Struct

from lbtrace.elf.image import Image, is_32_bit
from lbtrace.errors import BinaryError, TargetError, UsageError
from lbtrace.files.regular import map_regular
from lbtrace.files.search_path import find
from lbtrace.system.file import File
from lbtrace.system.process import look_at
from lbtrace.system.procfs import directory_of, read_bytes

DELETED = " (deleted)"
"""What the kernel adds to the name of a file that nothing leads to any more (d_path)."""

BREAKPOINT = 4
"""Bytes of which a breakpoint changes some, on each machine."""


class Mapped(Struct, frozen=True):
    """A file that a process has mapped executable.

    ``path`` is its name as the process sees it. ``entry`` leads to the file itself,
    whatever lies at the path by now; it needs CAP_CHECKPOINT_RESTORE (5.9) or
    CAP_SYS_ADMIN. ``inode`` is that of the file, on filesystems that report it correctly;
    ``device`` is what the kernel calls its filesystem: ``major << 20 | minor``.
    """

    pid: int
    path: str
    entry: str
    inode: int
    deleted: bool = False
    device: int = 0

    @property
    def name(self) -> str:
        """The file's name without its directory."""
        return os.path.basename(self.path)

    @property
    def inside(self) -> str:
        """The path that leads to where the process sees the file."""
        return f"{directory_of(self.pid)}/root{self.path}"

    def is_at(self, path: str) -> bool:
        """Return whether ``path`` leads to this very file."""
        try:
            there = os.stat(path)
        except OSError:
            return False
        try:
            own = os.stat(self.entry)
        except OSError:  # not permitted: the numbers have to do
            return not self.deleted and there.st_ino == self.inode
        return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)


class Opened(Struct):
    """An image of a file that is mapped, or not yet, and what the user should know of it."""

    image: Image
    notes: list[str]


def mapped_files(pid: int) -> list[Mapped]:
    """Return the files that a process has mapped executable. Raises `TargetError`."""
    with look_at(pid, "what it has mapped"):
        rows = _code_rows(pid)
    entries = _entries(pid)
    found: dict[tuple[str, str, int], Mapped] = {}
    for span, _, _, device, inode, path in rows:
        key = (path, device, int(inode))
        found.setdefault(key, _mapped(pid, entries, span, path, int(inode), device))
    return list(found.values())


def identify_mapped(path: str) -> tuple[int, int]:
    """Return what the kernel calls the file that a process maps at ``path``: its device
    (``major << 20 | minor``) and inode. stat(2) says others of overlays and btrfs, whose devices
    have no number of their own. Raises `OSError`."""
    status = os.stat(path)
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    if not major:
        own = os.fsencode(os.path.realpath(path))
        with closing(map_regular(path)):
            for line in read_bytes("/proc/self/maps").splitlines():
                words = line.split(maxsplit=5)
                if words[-1] == own:
                    major, minor = (int(each, 16) for each in words[3].split(b":"))
                    return major << 20 | minor, int(words[4])
    return major << 20 | minor, status.st_ino


def find_untouched(pid: int, file: File, offsets: Sequence[int]) -> list[int]:
    """Return at which of the ``offsets`` of a file that it has mapped a process has no breakpoint,
    as its code is there what it is in the file, or which it runs from elsewhere."""
    found: dict[int, bool] = {}
    entries = _entries(pid)
    try:
        for span, _, start, _, inode, path in _code_rows(pid):
            first, last = (int(each, 16) for each in span.split("-"))
            moved = first - int(start, 16)
            inside = [offset for offset in offsets if first <= moved + offset < last]
            if inside and _mapped(pid, entries, span, path, int(inode)).is_at(file.opened):
                alike = _alike(pid, moved, file, inside)
                found |= {o: found.get(o, True) and o in alike for o in inside}
        if not (found or _program(pid).is_at(file.opened)):
            return []
    except (OSError, TargetError):  # it has ended, or nobody may know
        return []
    return [offset for offset in offsets if found.get(offset, True)]


def _alike(pid: int, moved: int, file: File, offsets: Iterable[int]) -> set[int]:
    """Where the code of a process is that of a file, which is mapped ``moved`` by so much."""
    memory = os.open(f"{directory_of(pid)}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return {
            offset
            for offset in offsets
            if os.pread(memory, BREAKPOINT, moved + offset)
            == os.pread(file.descriptor, BREAKPOINT, offset)
        }
    finally:
        os.close(memory)


def _code_rows(pid: int) -> list[list[str]]:
    """What /proc says of the files that a process has mapped executable. Raises `OSError`."""
    maps = os.fsdecode(read_bytes(f"{directory_of(pid)}/maps"))
    # address perms offset device inode path (proc_pid_maps(5))
    rows = [line.split(maxsplit=5) for line in maps.split("\n") if "/" in line]
    return [row for row in rows if "x" in row[1] and row[5].startswith("/")]


def open_program(pid: int) -> Opened:
    """Return the program that a process runs. Raises `TargetError`, `BinaryError`."""
    return open_file(_program(pid))


def open_mapped(pid: int, name: str) -> Opened:
    """Return the file that a process knows as ``name``: a path, as seen here or by the process, or
    a bare file name, such as ``libc.so.6``.

    Where it has loaded no such file yet, the file of that name on disk, with a note.
    Raises `UsageError` where several files have the name, `TargetError` where the process
    has none and none is on disk either, `BinaryError` where it cannot be opened.
    """
    files = mapped_files(pid)
    program = _program(pid)
    if program.path not in {file.path for file in files}:  # its code was moved, to huge pages, say
        files.insert(0, program)
    for chosen in _choices(files, name):
        if len({file.path for file in chosen}) > 1:
            paths = " and ".join(sorted({file.path for file in chosen}))
            raise UsageError(
                f"process {pid} has several files loaded that are called {name}: {paths}",
                "give the path of the one to trace",
            )
        if chosen:
            # The same path twice: an older one, replaced, and what lies there now.
            return open_file(min(chosen, key=lambda file: file.deleted), several=len(chosen) > 1)
    return _not_loaded(pid, name, files)


def _choices(files: list[Mapped], name: str) -> Iterator[list[Mapped]]:
    """The files that ``name`` may mean, by one way of reading it after the other."""
    here = name if "/" in name else _found(name)
    if "/" in name:
        path = os.path.abspath(name)
        yield [file for file in files if file.path in (name, path, os.path.realpath(path))]
        yield [file for file in files if file.is_at(name)]
        yield [file for file in files if file.is_at(f"{directory_of(file.pid)}/root{name}")]
        return
    yield [file for file in files if file.name == name]
    # As a link beside it calls it, or ld.so's cache.
    yield [file for file in files if file.is_at(f"{os.path.dirname(file.inside)}/{name}")]
    yield [file for file in files if here and file.is_at(here)]
    yield [file for file in files if file.name.startswith((f"{name}.so", f"{name}."))]


def _not_loaded(pid: int, name: str, files: Iterable[Mapped]) -> Opened:
    """The file of that name on disk, where the process sees the same disk."""
    names = {file.name: file.path for file in files}
    similar = [*_similar(os.path.basename(name), names)]
    known = f"; what it has loaded: {', '.join(similar)}" if similar else ""
    inside = f"{directory_of(pid)}/root{os.path.abspath(name)}"
    path = name if "/" in name else _found(name)
    if "/" in name and not _same(path, inside) and os.path.exists(inside):
        path = inside  # the process sees another one there
    if not path or not os.path.exists(path) or not _sees(pid, path):
        raise TargetError(
            f"process {pid} has loaded no file {name}{known}",
            f"see what it has loaded in {directory_of(pid)}/maps, and give a name from there",
        )
    image = Image.open(path)
    if is_32_bit(f"{directory_of(pid)}/exe"):
        raise TargetError(
            f"process {pid} runs a 32-bit program, which does not load {image.path}",
            "only 64-bit programs can be traced",
        )
    note = (
        f"process {pid} has not loaded {image.path}{known}: its functions are seen only"
        " if the process loads it later"
    )
    return Opened(image, [note])


def _sees(pid: int, path: str) -> bool:
    """Whether the process finds the file of ``path`` at the same place."""
    inside = f"{directory_of(pid)}/root"
    return path.startswith(inside) or _same(path, f"{inside}{os.path.abspath(path)}")


def open_file(file: Mapped, *, several: bool = False) -> Opened:
    """Return the very file that is mapped. Raises `TargetError`, `BinaryError`."""
    notes = []
    for path in (file.path, file.inside):
        if file.is_at(path):
            opened = File(path)
            if file.is_at(opened.opened):  # not replaced since
                break
    else:
        opened = _through(file)
        if not file.path.startswith("/memfd:"):
            notes.append(
                f"process {file.pid} runs {file.path} as it was before it was replaced or"
                " removed on disk: that one is traced"
            )
    if several:
        notes.append(f"process {file.pid} has an older {file.path} loaded too: it is not traced")
    return Opened(Image(opened), notes)


def _through(file: Mapped) -> File:
    """The mapped file, opened through the process."""
    try:
        return File(file.entry, file.path)
    except BinaryError as error:
        raise TargetError(
            f"process {file.pid} runs another file than the one at {file.path},"
            " and its file cannot be opened",
            "run lbtrace as root, or start the process again",
        ) from error


def _program(pid: int) -> Mapped:
    link = f"{directory_of(pid)}/exe"
    with look_at(pid, "which program it runs"):
        path = os.readlink(link)
    return Mapped(pid, path.removesuffix(DELETED), link, 0, path.endswith(DELETED))


def _entries(pid: int) -> str:
    """The directory with links to what a process has mapped. Threads have one, too, but not below
    ``task``."""
    return f"/proc/{os.path.basename(directory_of(pid))}/map_files"


def _mapped(
    pid: int, entries: str, span: str, path: str, inode: int, device: str = "0:0"
) -> Mapped:
    path = path.replace("\\012", "\n")
    # Without leading zeros, as the kernel wants them in map_files.
    first, _, last = span.partition("-")
    entry = f"{entries}/{int(first, 16):x}-{int(last, 16):x}"
    deleted = path.endswith(DELETED)
    major, _, minor = device.partition(":")
    number = int(major, 16) << 20 | int(minor, 16)
    return Mapped(pid, path.removesuffix(DELETED), entry, inode, deleted, number)


def _found(name: str) -> str:
    try:
        return find(name)
    except BinaryError:
        return ""


def _same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _similar(name: str, names: Iterable[str]) -> Iterator[str]:
    """Those of ``names`` that resemble ``name``."""
    stem = re.split(r"[.-]", name)[0]
    from difflib import get_close_matches  # imported here because it is seldom needed

    known = sorted(names)
    yield from (n for n in known if stem and re.split(r"[.-]", n)[0] == stem)
    near = get_close_matches(name, known, 3)
    yield from (n for n in near if re.split(r"[.-]", n)[0] != stem)
