"""Names the callers that are sent with calls."""

from __future__ import annotations

from array import array
from itertools import accumulate
from struct import Struct

from lbtrace.model import Addition, Batch, Frame, Plan
from lbtrace.model.wire import BLOB_WORD, EVENT_WORDS, PID_WORD, find_callers
from lbtrace.model.wire_limits import FRAME_KERNEL
from lbtrace.targets.frame_names import FrameNames, Place

FRAME = Struct("<QQQII")
"""``struct lbt_stack_frame``: address, offset, inode, device, flags."""


class Callers:
    """Replaces the frames of stacks in batches by their numbers in `Plan.frames`, to which those
    that are new are added."""

    def __init__(self, names: FrameNames) -> None:
        self._names = names
        self._numbers: dict[tuple[int, int, int, int, int], range] = {}
        self._next = 0

    def name(self, batch: Batch, plan: Plan) -> tuple[Addition | Batch, ...]:
        """Return a batch with the numbers of frames, after what these add to the plan."""
        records = find_callers(batch)
        if not records:
            return (batch,)
        words = memoryview(bytearray(batch.events)).cast("I")
        sizes = words[BLOB_WORD::EVENT_WORDS].tolist()
        ends = list(accumulate(sizes))
        blobs, pieces, done = memoryview(batch.blobs), [], 0
        fresh: list[Frame] = []
        for record in records:
            end = ends[record]
            pieces.append(blobs[done : end - sizes[record]])
            pid, stack = words[record * EVENT_WORDS + PID_WORD], blobs[end - sizes[record] : end]
            numbers = array("I")
            for frame in FRAME.iter_unpack(stack):
                numbers.extend(self._find(pid, frame, fresh))
            pieces.append(memoryview(numbers).cast("B"))
            words[record * EVENT_WORDS + BLOB_WORD] = 4 * len(numbers)
            done = end
        pieces.append(blobs[done:])
        numbered = Batch(words.tobytes(), b"".join(pieces), batch.threads, batch.entries, batch.gap)
        counts = len(plan.binaries), len(plan.functions), len(plan.probes)
        first = len(plan.frames)
        added = Addition(counts, frames=tuple(fresh), first_frame=first)
        return (added, numbered) if fresh else (numbered,)

    def _find(self, pid: int, frame: tuple[int, int, int, int, int], fresh: list[Frame]) -> range:
        address, offset, inode, device, flags = frame
        if inode or flags & FRAME_KERNEL:  # whatever process it is
            key = (0, offset or address, inode, device, flags)
        else:
            key = (pid, address, 0, 0, flags)
        numbers = self._numbers.get(key)
        if numbers is None:
            named = self._names.name(pid, Place(*frame))
            numbers = self._numbers[key] = range(self._next, self._next + len(named))
            self._next = numbers.stop
            fresh += named
        return numbers
