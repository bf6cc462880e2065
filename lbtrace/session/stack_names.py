"""Names the stacks by which probes aggregate in the kernel."""

from __future__ import annotations

from itertools import chain

from msgspec.structs import replace

from lbtrace.bpf.met_stacks import MetStack, read_stacks
from lbtrace.bpf.objects import TraceObject
from lbtrace.model import Aggregate, Aggregates, Frame
from lbtrace.session.stack_files import StackFiles
from lbtrace.targets.frame_names import Place


class StackNames:
    """Names the stacks that ``loaded`` has met, through ``files``."""

    def __init__(self, loaded: TraceObject, files: StackFiles) -> None:
        self._loaded = loaded
        self._files = files
        self._stacks: dict[bytes, MetStack] = {}
        self._frames: dict[Frame, int] = {}
        self._named: dict[tuple[int, bytes], tuple[int, ...]] = {}

    def add(self, found: Aggregates) -> Aggregates:
        """Return the same with the stack of each row."""
        self._files.look()
        self._stacks.update(read_stacks(self._loaded, self._stacks))
        rows = tuple(map(self._with_stack, found.rows))
        return replace(found, rows=rows, frames=tuple(self._frames))

    def _with_stack(self, row: Aggregate) -> Aggregate:
        met = self._stacks.get(row.key)
        if met is None:
            return row
        stack = self._named.get((row.pid, row.key))
        if stack is None:
            named = (self._files.names.name(row.pid, Place(*frame)) for frame in met.frames)
            frames = chain.from_iterable(named)
            stack = tuple(self._frames.setdefault(f, len(self._frames)) for f in frames)
            self._named[row.pid, row.key] = stack
        return replace(row, stack=stack, end=met.end)
