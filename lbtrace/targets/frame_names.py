"""Names the places of stacks: function and offset, by the file that is mapped there.

What the kernel says of a frame holds after its process has ended: the device and inode number of
the file, and the place in it. Files are found in what processes have mapped, and stay open.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from lbtrace.elf import cpp_names, demangle, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.errors import BinaryError, TargetError
from lbtrace.model import Frame
from lbtrace.model.wire_limits import FRAME_EXACT, FRAME_GUESSED, FRAME_KERNEL
from lbtrace.system.file import File
from lbtrace.system.procfs import read_lines
from lbtrace.targets.kernel_names import KernelNames
from lbtrace.targets.mapped_files import Mapped, mapped_files

if TYPE_CHECKING:
    from lbtrace.dwarf.source_frames import SourceFrames

EXPECTED = 65536
"""Files of which it is noted where they are, at most."""

SIGNAL = "<signal handler called>"
"""As gdb calls the frame between a handler and what it has interrupted."""

PERF_MAP_SIZE = 64 << 20
"""Bytes of such a file that are read."""


class Place(NamedTuple):
    """Where a frame is (struct lbt_stack_frame): the ``address`` in the process, and in a file the
    ``offset`` there, the ``inode`` and the ``device`` (major << 20 | minor) as the kernel has them;
    0 in no file."""

    address: int
    offset: int = 0
    inode: int = 0
    device: int = 0
    flags: int = 0

    @property
    def returns(self) -> bool:
        """Whether a call returns there, so that the instruction before it counts."""
        return not self.flags & FRAME_EXACT


class _Code:
    """The functions of a file, read when one is asked for."""

    def __init__(self, path: str, image: Image | None) -> None:
        self.path = path
        self._image = image
        self._symbols: Symbols | None = None
        self._source: SourceFrames | None = None

    def name(self, place: Place) -> tuple[str, int]:
        """Return the function, and how far behind its start; ``""`` and the place in the file where
        none is named."""
        address = _address(self._image, place.offset - place.returns) if self._image else -1
        if self._image is None or address < 0:
            return "", place.offset
        if self._symbols is None:
            self._symbols = symbols.read_any(self._image, servers=False)
        for functions in (self._symbols.functions, self._symbols.cold):
            if found := functions.holding(address):
                return _shown(found.name), address + place.returns - found.address
        if Unwind(self._image).is_of_signal(address):
            return SIGNAL, 0
        return "", place.offset

    def with_source(self, place: Place, frame: Frame) -> tuple[Frame, ...]:
        """Return the ``frame`` at a place with its line, after those of the functions that are
        inlined there."""
        if self._image is None or frame.name == SIGNAL:
            return (frame,)
        if self._source is None:
            from lbtrace.dwarf.source_frames import SourceFrames  # imported here: few ask for it

            self._source = SourceFrames(self._image)
        address = _address(self._image, place.offset - place.returns)
        *inlined, (_, source, line) = self._source.at(address, entered=place.returns)
        copies = (
            Frame(_shown(name), 0, self.path, inlined=True, source=file, line=at)
            for name, file, at in inlined
        )
        return (*copies, replace(frame, source=source, line=line))


class FrameNames:
    """Names the frames of any process; ``files`` are known from the beginning. ``srcline``: also
    inlined functions, and lines. ``look`` is called where a file is not known, to `know` or
    `expect` those that were mapped meanwhile."""

    def __init__(
        self,
        files: Iterable[File] = (),
        *,
        srcline: bool = False,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._srcline = srcline
        self._look = look
        self._codes: dict[tuple[int, int], _Code] = {}
        self._known: dict[tuple[int, int, int, bool], tuple[Frame, ...]] = {}
        self._made: dict[int, _MadeCode] = {}
        self._expected: dict[tuple[int, int], str] = {}
        self._kernel = KernelNames()
        for file in files:
            device, inode = file.identity
            key = os.major(device) << 20 | os.minor(device), inode
            self._codes[key] = _Code(file.path, _open(file.opened, file.path))

    def know(self, device: int, inode: int, path: str, image: Image | None) -> None:
        """Note a file that processes may map."""
        self._codes.setdefault((device, inode), _Code(path, image))

    def expect(self, device: int, inode: int, path: str) -> None:
        """Note at which path some process has mapped a file."""
        if len(self._expected) < EXPECTED:
            self._expected[device, inode] = path

    def expected(self, device: int, inode: int) -> str:
        """Return the path at which a file was mapped; empty where another one is there by now, or
        none that can be seen from here."""
        path = self._expected.get((device, inode), "")
        try:
            return path if path and os.stat(path).st_ino == inode else ""
        except OSError:
            return ""

    def learn(self, pid: int) -> None:
        """Note what a process has mapped, as long as it runs."""
        try:
            mapped = mapped_files(pid)
        except TargetError:
            return
        for each in mapped:
            if (each.device, each.inode) not in self._codes:
                self._codes[each.device, each.inode] = _code(each)

    def name(self, pid: int, place: Place) -> tuple[Frame, ...]:
        """Return the frame at a place of a process, after those of inlined functions."""
        if place.flags & FRAME_KERNEL:
            return (self._kernel.name(place.address, returns=place.returns),)
        frames = self._in_file(pid, place) if place.inode else (self._name_made(pid, place),)
        if place.flags & FRAME_GUESSED:
            return tuple(replace(frame, guessed=True) for frame in frames)
        return frames

    def _in_file(self, pid: int, place: Place) -> tuple[Frame, ...]:
        file = place.device, place.inode
        key = (*file, place.offset, place.returns)
        frames = self._known.get(key)
        if frames is None:
            if file not in self._codes:
                self._look()
            if file not in self._codes:
                self.learn(pid)
            if file not in self._codes and (path := self.expected(*file)):
                self._codes[file] = _Code(path, _open(path, path))
            code = self._codes.get(file)
            if code is None:  # the process has ended: perhaps another one will map it
                return (Frame("", place.offset),)
            frame = Frame(*code.name(place), code.path)
            frames = code.with_source(place, frame) if self._srcline else (frame,)
            self._known[key] = frames
        return frames

    def _name_made(self, pid: int, place: Place) -> Frame:
        """That in code which the process itself has made."""
        made = self._made.get(pid)
        address = place.address - place.returns
        if made is None or (not made.name(address)[0] and made.grows()):
            made = self._made[pid] = _MadeCode(pid)
        name, offset = made.name(address)
        return Frame(name, offset + place.returns if name else place.address, "")


class _MadeCode:
    """The functions that a process has made while it runs, as ``perf-PID.map`` names them."""

    def __init__(self, pid: int) -> None:
        self._path = next(filter(os.path.exists, _perf_maps(pid)), "")
        self._size = _size(self._path)
        self._functions = sorted(_read_perf_map(self._path))
        self._starts = [start for start, _, _ in self._functions]

    def grows(self) -> bool:
        """Return whether the file has got more names."""
        return bool(self._path) and _size(self._path) != self._size

    def name(self, address: int) -> tuple[str, int]:
        """Return the function at an address and how far behind its start that is."""
        at = bisect_right(self._starts, address) - 1
        if at >= 0:
            start, size, name = self._functions[at]
            if address < start + size:
                return name, address - start
        return "", 0


def _perf_maps(pid: int) -> Iterator[str]:
    """The paths at which a process names what it makes (perf's Documentation/jit-interface.txt):
    by its number in its own container, or here."""
    own = f"/proc/{pid}"
    inside = str(pid)
    try:
        status = next(row for row in read_lines(f"{own}/status") if row.startswith("NSpid:"))
        inside = status.split()[-1]
    except (OSError, StopIteration):
        pass
    yield f"{own}/root/tmp/perf-{inside}.map"
    yield f"/tmp/perf-{pid}.map"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0


def _read_perf_map(path: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, size and name of each line ``START SIZE NAME``; of hexadecimal numbers."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if path else -1
    except OSError:
        return
    if descriptor < 0:
        return
    with open(descriptor, "rb") as file:
        for line in file.read(PERF_MAP_SIZE).splitlines():
            words = line.split(maxsplit=2)
            try:
                start, size = int(words[0], 16), int(words[1], 16)
                yield start, size, words[2].decode(errors="replace")
            except (ValueError, IndexError):  # it may be written just now
                continue


def _code(mapped: Mapped) -> _Code:
    """What a process has mapped: through it, or where it sees the file."""
    for path in (mapped.entry, mapped.inside):
        if image := _open(path, mapped.path):
            return _Code(mapped.path, image)
    return _Code(mapped.path, None)


def _shown(symbol: str) -> str:
    return cpp_names.shorten(demangle.short(symbol.partition("@")[0]))


def _open(path: str, shown: str) -> Image | None:
    try:
        return Image(File(path, shown))
    except BinaryError:
        return None


def _address(image: Image, offset: int) -> int:
    """The virtual address of the code at a place in a file; -1 where there is none."""
    for segment in image.executable_segments:
        if segment.offset <= offset < segment.offset + segment.size:
            return segment.address + offset - segment.offset
    return -1
