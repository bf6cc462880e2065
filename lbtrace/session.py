"""A plan at work: attaches its probes, and yields what they send in batches."""

from __future__ import annotations

import mmap
import os
import resource
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.errors import UsageError
from lbtrace.model import Batch, Losses, Plan, Target
from lbtrace.process import Child, open_pid
from lbtrace.wire import EVENT_SIZE, losses

if TYPE_CHECKING:
    from lbtrace.bpf.links import Mode

POLL_MS = 20
"""How long an event may wait in a ring that does not fill."""

BATCH_EVENTS = 4096
"""Small enough that the ring is read again before it fills."""

BACKLOG_BATCHES = 640
"""Bound of what waits in memory while a slow sink writes, 240 MB of events;
then the ring fills."""

_TIME_IS_UP = -2
"""Stands beside the descriptors that `Session._wait` tells."""


class Options(Struct, frozen=True):
    """How a session runs. ``ring_size`` is in bytes, a power of two;
    ``duration`` in seconds; ``mode`` None takes the best the kernel has."""

    ring_size: int = 8 << 20
    duration: float | None = None
    max_events: int | None = None
    mode: Mode | None = None


class Session:
    """Owns every kernel resource of a trace, from entering to leaving it.

    Entering starts the target's command (held), loads the programs and
    attaches the probes. `batches` lets the command run and yields what
    arrives. Leaving detaches; a command that still runs then goes on. Raises
    `LbtraceError`; nothing stays attached, whatever happens, but after an error
    the kernel may still be detaching. ``on_attaching`` is called with how many
    steps of how many are done, first with 0, ``on_detaching`` with how many links
    of how many are detached. ``detach_seconds``, known when attaching begins, is
    about how long detaching may take, 0 where that is a moment.
    """

    def __init__(self, plan: Plan, target: Target, options: Options | None = None) -> None:
        self.plan = plan
        self.target = target
        self.options = options or Options()
        self.child: Child | None = None
        self.mode: Mode | None = None
        self.on_attaching: Callable[[int, int], None] = lambda done, total: None
        self.on_detaching: Callable[[int, int], None] = lambda done, total: None
        self.detach_seconds = 0.0
        self._stopping = False
        self._detaching = False
        self._pidfd = -1
        self._resources = ExitStack()
        ring = self.options.ring_size
        if ring & (ring - 1) or ring < mmap.PAGESIZE:
            raise UsageError(
                f"a ring of {ring} bytes is not possible", "give a power of two from 4K on"
            )

    def __enter__(self) -> Session:
        # Imported here: whoever only reads captures has no use for libbpf.
        from lbtrace.bpf import features, links
        from lbtrace.bpf.objects import TraceObject
        from lbtrace.bpf.ring import Reader
        from lbtrace.bpf.specs import Specs

        with ExitStack() as held:
            self._waiter = held.enter_context(select.epoll())
            if self.target.command:
                self.child = Child(self.target.command)
                held.callback(self.child.abandon)
            root = self.child.pid if self.child else self.target.pid
            if root:
                self._watch_end(root, held)
            kernel = features.probe()
            self.mode = self.options.mode or links.best_mode(kernel, self.plan)
            specs = Specs(self.plan)
            copies = None if kernel.cookie else links.copies(self.plan, specs.cookies)
            steps = len(copies or ())
            if self.mode == "plain":
                _raise_open_files()
                wanted = links.plain_links(self.plan)
                self.detach_seconds = wanted * links.GRACE
                steps += wanted
            done = count(1)
            self.on_attaching(0, steps)
            follow = ("forked", "exited") if self.child or self.target.follow else ()
            shared = links.programs(self.mode, self.plan.probes) if kernel.cookie else {}
            self._object = TraceObject(
                specs,
                shared | dict.fromkeys(follow),
                copies=copies,
                tick=lambda: self.on_attaching(next(done), steps),
                ring_size=self.options.ring_size,
                root=root,
                follow=bool(follow),
            )
            held.callback(self._object.close)
            self._ring = self._object.ring_fd()
            self._reader = Reader(self._ring, BATCH_EVENTS)
            held.callback(self._reader.close)
            # Edge-triggered: data in the ring does not wake, only the program does.
            self._waiter.register(self._ring, select.EPOLLIN | select.EPOLLET)
            self._links = links.Links()
            held.push(self._leave)
            for program in follow:
                self._links.attach_tracepoint(self._object, program)
            # Where children are traced too, the probes are in every process and the
            # program looks whose hit it is.
            everywhere = bool(follow) or (
                self.mode != "plain" and features.filters_by_thread(os.uname().release)
            )
            pid = 0 if everywhere else self.target.pid
            self._links.attach(
                *(self._object, self.plan, specs.cookies, self.mode, pid),
                tick=lambda: self.on_attaching(next(done), steps),
            )
            self._resources = held.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        """Detach; whom an error ends shall not wait for it."""
        if kind is not None and self.detach_seconds:
            self._links.abandon()
        self._links.close()

    def abandon(self) -> bool:
        """Leave to the kernel what is not detached yet. Safe in a signal handler.

        False, and nothing happens, while nothing is being detached.
        """
        if self._detaching:
            self._links.abandon()
        return self._detaching

    def stop(self) -> None:
        """End `batches` soon, with all that happened until now. Safe in a signal handler."""
        self._stopping = True

    def batches(self) -> Iterator[Batch]:
        """What the probes send, until `stop`, the process's end, or an option's bound.

        The ring is emptied before each batch that is yielded, so a slow reader
        fills memory (to a bound) rather than the ring. A batch without events
        says that for a moment there were none. Raises `TargetError` where the
        command cannot be executed.
        """
        duration, budget = self.options.duration, self.options.max_events
        end = None if duration is None else time.monotonic() + duration
        if self.child:
            self.child.release()
        backlog: deque[Batch] = deque()
        ended = told = False
        while budget is None or budget > 0:
            woken = self._wait(end, idle=not (backlog or ended))
            if not ended and (self._stopping or woken & {_TIME_IS_UP, self._pidfd}):
                # What is sent until the last probe is gone belongs to the trace.
                self._detach(lambda: self._collect(backlog))
                ended = True
            if ended or not backlog or self._ring in woken:
                self._collect(backlog)
            if backlog:
                batch = backlog.popleft()
                if budget is not None:
                    batch = _cut(batch, budget)
                    budget -= len(batch.events) // EVENT_SIZE
                told = True
                yield batch
            elif ended:
                last = self._untold()
                if last.events:
                    yield last
                break
            elif told:
                told = False
                yield Batch(b"")
        self._detach()

    def losses(self) -> Losses:
        """What the kernel side has lost until now."""
        return self._object.losses()

    def _detach(self, collect: Callable[[], None] = lambda: None) -> None:
        total = len(self._links)
        self._detaching = True

        def tick(left: int) -> None:
            collect()
            self.on_detaching(total - left, total)

        self._links.close(tick)
        self._detaching = False

    def _untold(self) -> Batch:
        """The losses that no event of their threads came to tell."""
        now = time.monotonic_ns()
        pending = self._object.pending_losses()
        return Batch(b"".join(losses(now, *loss) for loss in pending))

    def _wait(self, end: float | None, *, idle: bool) -> set[int]:
        """Wait a moment, if ``idle``, for the ring to fill or the process to end;
        tells what happened by descriptors."""
        timeout = POLL_MS / 1000 if idle else 0.0
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                return {_TIME_IS_UP}
            timeout = min(timeout, left)
        return {descriptor for descriptor, _ in self._waiter.poll(timeout)}

    def _collect(self, backlog: deque[Batch]) -> None:
        """Move what the ring holds to the backlog, as far as its bound allows.

        A short batch says that the ring is empty. To ask again at once would
        take events one by one as they come, at the traced program's expense.
        """
        while len(backlog) < BACKLOG_BATCHES and (batch := self._reader.drain()):
            backlog.append(batch)
            if len(batch.events) < BATCH_EVENTS * EVENT_SIZE:
                break

    def _watch_end(self, pid: int, held: ExitStack) -> None:
        self._pidfd = open_pid(pid)
        held.callback(os.close, self._pidfd)
        self._waiter.register(self._pidfd, select.EPOLLIN)


def _cut(batch: Batch, events: int) -> Batch:
    """At most ``events`` of a batch; bytes that accompany later ones are harmless."""
    return Batch(batch.events[: events * EVENT_SIZE], batch.blobs, batch.threads)


def _raise_open_files() -> None:
    """Plain links take two descriptors a probe, on kernels without cookies more: as many as
    this process may have (fs.nr_open as root), for itself alone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = int(Path("/proc/sys/fs/nr_open").read_text())
    for limit in (max(most, hard), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return
        except ValueError:  # above the hard limit, without CAP_SYS_RESOURCE
            continue
