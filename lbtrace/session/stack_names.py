"""Names the stacks by which probes aggregate in the kernel."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from lbtrace.bpf.mappings import Mappings
from lbtrace.bpf.met_stacks import MetStack, read_stacks
from lbtrace.bpf.objects import TraceObject
from lbtrace.model import Aggregate, Aggregates, Frame
from lbtrace.system.file import File
from lbtrace.targets.frame_names import FrameNames, Place


class StackNames:
    """Names stacks by what the processes have mapped: ``root`` and those that it forks, or all if
    it is 0. ``files`` are traced. Raises `KernelError`."""

    def __init__(self, loaded: TraceObject, files: Iterable[File], root: int) -> None:
        self._loaded = loaded
        self._root = root
        self._names = FrameNames(files)
        self._mappings = Mappings()
        self._stacks: dict[bytes, MetStack] = {}
        self._frames: dict[Frame, int] = {}
        self._named: dict[tuple[int, bytes], tuple[int, ...]] = {}
        if root:
            self._names.learn(root)

    def look(self) -> None:
        """Note what processes have mapped since the last call."""
        pids, uncertain = self._mappings.take()
        if self._root:
            pids = {pid for pid in pids if pid == self._root or self._loaded.follows(pid)}
            pids |= {self._root, *self._loaded.followed()} if uncertain else set()
        for pid in pids:
            self._names.learn(pid)

    def close(self) -> None:
        """Look no more."""
        self._mappings.close()

    def add(self, found: Aggregates) -> Aggregates:
        """Return the same with the stack of each row."""
        self.look()
        self._stacks.update(read_stacks(self._loaded, self._stacks))
        rows = tuple(map(self._with_stack, found.rows))
        return Aggregates(found.time, rows, tuple(self._frames))

    def _with_stack(self, row: Aggregate) -> Aggregate:
        met = self._stacks.get(row.key)
        if met is None:
            return row
        stack = self._named.get((row.pid, row.key))
        if stack is None:
            named = (self._names.name(row.pid, Place(*frame)) for frame in met.frames)
            stack = tuple(self._frames.setdefault(f, len(self._frames)) for f in named)
            self._named[row.pid, row.key] = stack
        return replace(row, stack=stack, end=met.end)
