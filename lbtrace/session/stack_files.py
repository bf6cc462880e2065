"""The files through which stacks are walked: tables for the kernel, names for people."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from itertools import takewhile

from lbtrace.bpf.mappings import Mappings
from lbtrace.bpf.objects import TraceObject
from lbtrace.bpf.stack_tables import BY_GUESS, BY_POINTER, BY_TABLE, CHUNK, StackTables
from lbtrace.elf.frame_rows import RowMaker
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import closure
from lbtrace.errors import BinaryError, TargetError
from lbtrace.model import Plan
from lbtrace.session.mapped_before import MappedBefore
from lbtrace.session.private_libraries import closure_beside
from lbtrace.system.file import File
from lbtrace.targets.frame_names import FrameNames
from lbtrace.targets.mapped_files import DELETED, Mapped, identify_mapped, mapped_files

PATIENCE, LONGEST = 1.0, 10.0
"""Seconds for learning files, before the trace, that processes have mapped of which none is named,
or a command has when it was traced before: those of the processor, as others may be busy with it,
and all."""


class StackFiles:
    """Knows the files that processes have mapped: ``root`` and those that are followed, or all
    that stacks meet where it is 0. ``command`` is what it will run. Without ``tables`` callers are
    found by frame pointers; ``srcline`` is as of `FrameNames`. A stack that meets a file which is
    not known yet ends there.

    Raises `KernelError`.
    """

    def __init__(
        self,
        loaded: TraceObject,
        files: Iterable[File],
        root: int,
        command: str = "",
        *,
        tables: bool = True,
        srcline: bool = False,
    ) -> None:
        self.names = FrameNames(files, srcline=srcline, look=self.look)
        self._loaded = loaded
        self._root = root
        self._known: set[tuple[int, int]] = set()
        self._mapped: set[str] = set()
        """Paths of files that were found mapped, or that stacks have met."""
        self._mappings = Mappings()
        self._maker = RowMaker(CHUNK)
        self._tables = StackTables(loaded.map) if tables else None
        for pid in {root, *loaded.followed} if root and not command else ():
            self._learn(pid)
        if not root:
            self._learn_running({file.identity[1] for file in files})
        for path in (*filter(None, [command]), *(file.path for file in files)):
            self._expect(closure(path, os.environ).paths)
        self._before = MappedBefore(command) if command and tables else None
        if self._before:
            paths = self._before.load() or closure_beside(command, os.environ)
            self._expect(takewhile(self._patience(), paths))

    def fileno(self) -> int:
        """Readable as soon as some process of the machine has mapped code."""
        return self._mappings.fileno()

    def close(self) -> None:
        """Learn no more."""
        self._mappings.close()
        if self._before:
            self._before.store(self._mapped)
        if self._tables:
            self._tables.close()

    def look(self) -> None:
        """Learn what processes have mapped, and what stacks have met, since the last call."""
        pids, uncertain = self._mappings.take()
        for device, inode, path in self._mappings.files():
            self.names.expect(device, inode, path)
        if self._root:
            pids = {pid for pid in pids if pid == self._root or pid in self._loaded.followed}
            pids |= {self._root, *self._loaded.followed} if uncertain else set()
            for pid in pids:
                self._learn(pid)
        if self._tables:
            self._learn_met(self._tables)

    def _learn_met(self, tables: StackTables) -> None:
        for met in tables.met():
            entry = f"/proc/{met.pid}/map_files/{met.start:x}-{met.end:x}"
            shown = os.path.realpath(entry).removesuffix(DELETED)
            expected = self.names.expected(met.device, met.inode)
            self._mapped |= {expected} if expected else set()
            if not (
                self._add(met.device, met.inode, shown, (entry,))
                or self._add(met.device, met.inode, expected, filter(None, [expected]))
            ):
                tables.forget(met)  # another process may have it, too

    def _expect(self, paths: Iterable[str]) -> None:
        """Learn files that processes are likely to map."""
        for path in paths:
            with suppress(OSError):
                self._add(*identify_mapped(path), path, (path,))

    def _learn(self, pid: int) -> None:
        with suppress(TargetError):
            self._add_all(mapped_files(pid))

    def _add_all(self, files: Iterable[Mapped]) -> None:
        for each in files:
            self._mapped |= set() if each.deleted else {each.path}
            self._add(each.device, each.inode, each.path, (each.entry, each.inside))

    def _patience(self) -> Callable[[object], bool]:
        """What says whether there is time and room for files that may not be needed: half of the
        room is for those that stacks meet."""
        spent, until = time.thread_time() + PATIENCE, time.monotonic() + LONGEST
        tables = self._tables

        def lasts(_: object) -> bool:
            in_time = time.thread_time() < spent and time.monotonic() < until
            return in_time and not (tables and tables.is_half_full)

        return lasts

    def _learn_running(self, inodes: Set[int]) -> None:
        """Learn what processes have mapped that run a file of these, or all processes where there
        is none, or as many as there is time for."""
        for process in takewhile(self._patience(), filter(str.isdigit, os.listdir("/proc"))):
            with suppress(TargetError):
                files = mapped_files(int(process))
                if not inodes or any(each.inode in inodes for each in files):
                    self._add_all(files)

    def _add(self, device: int, inode: int, shown: str, paths: Iterable[str]) -> bool:
        """Learn a file, to which one of ``paths`` may lead."""
        if (device, inode) in self._known:
            return True
        path = next(filter(os.path.exists, paths), None)
        if path is None:
            return False
        image = None
        with suppress(BinaryError):  # what is no ELF file may hold code all the same
            image = Image(File(path, shown))
        self._known.add((device, inode))
        self.names.know(device, inode, shown, image)
        if self._tables:
            self._add_table(self._tables, device, inode, image)
        return True

    def _add_table(self, tables: StackTables, device: int, inode: int, image: Image | None) -> None:
        rows = self._maker.make(image, tables.next) if image else None
        if rows is None:
            tables.add(device, inode, BY_GUESS)
            return
        tables.add_rules(self._maker.rules(tables.rules))
        how = BY_POINTER if rows.keeps_pointers else BY_TABLE
        tables.add(device, inode, how, rows.words, (rows.first_page, rows.pages))


@contextmanager
def watch(
    loaded: TraceObject, plan: Plan, files: Iterable[File], root: int, command: Sequence[str]
) -> Iterator[StackFiles]:
    """The files through which the stacks of a trace are walked, until it ends."""
    tables, srcline = plan.unwind == "tables", plan.srcline
    known = StackFiles(loaded, files, root, *command[:1], tables=tables, srcline=srcline)
    try:
        yield known
    finally:
        known.close()
