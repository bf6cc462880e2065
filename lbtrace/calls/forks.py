"""What processes continue that were forked inside of calls.

A forked process runs on a copy of its parent's stack, and has the calls that were open there: it
calls others inside of them, and returns from them. Its stacks begin with these calls when it is
first seen to do something; of those that do nothing, nothing is shown. A call becomes an
`InheritedCall` when it ends there, for most never do, and the same ones may be those of
thousands of processes. What continues on another stack (a thread, what ``posix_spawn`` starts)
inherits nothing.

Inherited calls are not counted. They return as others do, without a duration.
"""

from __future__ import annotations

from operator import attrgetter

from lbtrace.calls.call_stack import Stack
from lbtrace.model import Call, Fork, InheritedCall, Thread

_FIELDS = attrgetter(*Call.__struct_fields__)

OWN = 0
"""The lane of a thread's own stack, among those of its process."""

MOST = 16384
"""Processes that may have calls to continue, and have done nothing yet: as many as are followed
(bpf_src/state.h). Of more, the first ones begin without calls."""

RETURN_SLOT = 8
"""Bytes of the stack that a call takes for its return address, at most: on arm64 it takes none. By
so many a function that forks may have moved the stack pointer above its frame: ``vfork`` takes its
return address from the stack before."""


class Inheritance:
    """What a process has of its parent, and has not continued yet: ``stacks`` by lane, of which
    the calls up to a frame may have been left since (``landed``). ``thread`` is its first one,
    ``parent`` the one that forked it, ``parent_pid`` its process."""

    __slots__ = ("begun", "landed", "parent", "parent_pid", "stacks", "thread")

    def __init__(self, thread: Thread, parent: int, parent_pid: int) -> None:
        self.thread = thread
        self.parent = parent
        self.parent_pid = parent_pid
        self.stacks: dict[int, Stack] = {}
        self.landed: dict[int, int] = {}
        self.begun = False

    def add(self, lane: int, stack: Stack, landed: int | None = None) -> None:
        """Inherit the calls of a stack, as far as there are some."""
        if stack.calls:
            self.stacks[lane] = stack.copy()
            if landed is not None:
                self.landed[lane] = landed

    def land(self, lane: int, frame: int) -> None:
        """Record that calls of a frame and below were left on a lane."""
        self.landed[lane] = max(frame, self.landed.get(lane, frame))


class Inheritances(dict[int, Inheritance]):
    """By the process that has them."""

    def add(self, inheritance: Inheritance) -> Inheritance | None:
        """Add one; return the first one, which is removed, where there are too many."""
        pid = inheritance.thread.pid
        self.pop(pid, None)
        self[pid] = inheritance
        return self.pop(next(iter(self))) if len(self) > MOST else None


def continue_calls(stack: Stack, of: Inheritance, lane: int) -> Fork:
    """Let the copy of a parent's ``stack`` be that of the process that continues it on a ``lane``;
    return what to say of that."""
    thread = of.thread
    stack.pid, stack.inherited, stack.forked_thread = thread.pid, len(stack.calls), thread
    return Fork(
        *(thread.pid, thread.tid, len(stack.calls), thread.time, of.parent, of.parent_pid),
        tuple(stack.calls),
        goroutine=lane,
    )


def inherit(call: Call, thread: Thread) -> InheritedCall:
    """Return a call as a process continues it whose first thread this is."""
    maker = call.maker if isinstance(call, InheritedCall) else call.tid
    made = InheritedCall(*_FIELDS(call), maker=maker, forked=thread.time)
    made.pid, made.tid = thread.pid, thread.tid
    made.result = made.duration = made.end_cpu = None
    made.end = "open"
    return made
