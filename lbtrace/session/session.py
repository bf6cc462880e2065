"""A plan at work: attaches its probes, and yields what they send in batches."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lbtrace.model import Addition, Aggregates, Batch, Losses, Plan, Target
from lbtrace.session import clock, processes
from lbtrace.session.backlog import BATCH_EVENTS, Backlog
from lbtrace.session.budget import Budget
from lbtrace.session.options import Options, check_ring
from lbtrace.session.probed_files import ProbedFiles
from lbtrace.system.file import File
from lbtrace.system.limits import allow_open_files
from lbtrace.system.process import Running, still_running
from lbtrace.targets.command import Command
from lbtrace.targets.reach import Abilities, Reach, find_reach

if TYPE_CHECKING:
    from lbtrace.bpf.specs import Specs
    from lbtrace.probes import Mode
    from lbtrace.session.additions import Additions
    from lbtrace.session.aggregation import Aggregation
    from lbtrace.session.callers import Callers
    from lbtrace.session.request import Request
    from lbtrace.session.stack_files import StackFiles

POLL_MS = 20
"""How long an event may wait in a ring that does not fill."""


OPEN_FILES = 64
"""Descriptors of a session besides those of plain links and their programs."""

_TIME_IS_UP = -2
"""Returned by `Session._wait` with the ready descriptors when the duration has ended."""


class Session:
    """Owns every kernel resource of a trace, from entering to leaving it.

    Entering starts the target's command (held), loads the programs and
    attaches the probes. `batches` lets the command run and yields what
    arrives. Leaving detaches; a command that still runs then continues. Raises `LbtraceError`;
    nothing stays attached, whatever happens, but after an error the kernel may still be detaching.
    ``on_attaching`` is called with how many steps of how many are done, first with 0,
    ``on_detaching`` with how many links of how many are detached, ``on_note`` with a line that the
    user should read. ``files`` are those that were planned, open; what of the plan is not among
    them is opened by its path. ``reach`` is what the plan was made for. ``broken_off`` says that
    the trace ended before its time, because continuing would have done harm. ``detach_seconds``,
    known when attaching begins, is about how long detaching may take, 0 where that is a moment.
    ``ignored`` are signals that the command ignores from its start on, and ``aside`` says that it
    prints to standard error, because standard output is for something else, ``restless`` that
    batches without events are wanted again and again. Where the plan may grow, ``later`` says what
    is traced of files that are mapped later, and ``plan`` is what it is by now.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        options: Options | None = None,
        files: Iterable[File] = (),
        reach: Reach | None = None,
        later: Request | None = None,
    ) -> None:
        self.plan = plan
        self.target = target
        self.options = options or Options()
        self.child: Command | None = None
        self.mode: Mode | None = None
        self.on_attaching: Callable[[int, int], None] = lambda done, total: None
        self.on_detaching: Callable[[int, int], None] = lambda done, total: None
        self.on_note: Callable[[str], None] = lambda note: None
        self.detach_seconds = 0.0
        self.ignored: frozenset[int] = frozenset()
        self.aside = self.restless = False
        self._files = files
        self._alone = False
        self._reach = reach
        self._later = later
        self._growth: Additions | None = None
        self._callers: Callers | None = None
        self._stack_files: StackFiles | None = None
        self._budget: Budget | None = None
        self._followed = processes.Followed()
        self.broken_off = self.attached = False
        self.target_ended = False
        self._interrupted = 0
        self._aggregation: Aggregation | None = None
        self._stopping = self._detaching = False
        self._resources = ExitStack()
        check_ring(self.options)

    def __enter__(self) -> Session:
        # Imported here: reading captures does not need libbpf.
        from lbtrace.bpf import features, links
        from lbtrace.bpf.objects import Loading, TraceObject
        from lbtrace.bpf.ring import RingReader
        from lbtrace.bpf.specs import Specs

        with ExitStack() as held:
            self._waiter = held.enter_context(select.epoll())
            self._ends = processes.Ends(self._waiter)
            if self.target.command:
                self.child = Command(self.target, self.ignored, aside=self.aside)
                held.callback(self.child.abandon)
            pids = (self.child.pid,) if self.child else self.target.pids
            for pid in pids:
                self._ends.watch(pid, held)
            root, several = pids[0] if pids else 0, len(pids) > 1
            kernel = features.probe()
            reach = self._reach or find_reach(self.target, self.options.mode, Abilities())
            self._alone = bool(self.child) and not reach.everyone
            self.mode = self.options.mode or links.best_mode(
                kernel, self.plan, guarded=reach.guarded
            )
            specs = Specs(self.plan, learns=root > 0)
            copies = None if kernel.cookie else links.copies(self.plan, specs.cookies)
            attached = links.with_turns(links.attachments(self.mode, self.plan.probes))
            single, self.detach_seconds = links.count_single(attached)
            steps = len(copies or ()) + single
            if single:
                allow_open_files(OPEN_FILES + links.open_files(single, copies))
            (step := self._make_step(steps))()
            self._probed = ProbedFiles(self.plan, self._files)
            self._probed.check(mapped=bool(self.target.pids))
            follow = bool(self.child or self.target.follow)
            reporting = processes.find_programs(
                self.plan,
                follows=follow,
                several=several,
                traces_children=not self._alone and (follow or not self.target.pids),
                knows_registers=kernel.cookie,
                preempted=features.preempts_tracepoints(os.uname().release),
            )
            shared = links.programs(self.mode, attached, self.plan) if kernel.cookie else {}
            self._object = TraceObject(
                specs,
                shared | dict.fromkeys(reporting, Loading(fetches=False)),
                copies=copies,
                tick=step,
                ring_size=self.options.ring_size,
                whom=processes.find_traced(self.target, root, follow=follow),
                later=links.LATER_SPECS if self._later or specs.returning.learns else 0,
            )
            held.callback(self._object.close)
            self._ring = self._object.ring_fd()
            self._reader = RingReader(self._object, BATCH_EVENTS, specs.decoded_registers)
            held.callback(self._reader.close)
            self._backlog = Backlog(self._object, self._reader)
            # Edge-triggered: data in the ring does not wake, only the programs do.
            self._waiter.register(self._ring, select.EPOLLIN | select.EPOLLET)
            self._links = links.Links()
            held.push(self._leave)
            forget = processes.follow_processes(
                self._object, pids if several else (), reporting, held
            )
            self._watch_stacks(root, held)
            # Where the probes are in every process, the program looks whose hit it is.
            only = 0 if reach.everyone else root
            if self.child:
                self.child.wait_until_held()
            with processes.of_living(root):
                self._links.attach(
                    *(self._object, self.plan, specs.cookies, attached, only, self._probed.files),
                    tick=step,
                )
            self._probed.check(mapped=bool(self.target.pids))
            self._watch_growth(specs, reach, only, root, held)
            self._begin(forget)
            self._resources = held.pop_all()
        return self

    def _begin(self, forget: Callable[[], None]) -> None:
        forget()
        for pid in self._ends.by_now():
            self._object.followed.discard(pid)  # it may have ended before programs learned of that
        self._check_interrupted()
        self.plan = self._probed.opened(replace(self.plan, clock=clock.read()))
        self.attached = True

    def __exit__(self, *raised: Any) -> None:
        self._resources.__exit__(*raised)

    def _watch_growth(
        self, specs: Specs, reach: Reach, only: int, root: int, held: ExitStack
    ) -> None:
        """Let a plan that may grow do so from now on."""
        if not (self._later or specs.learns_places) or self.mode is None:
            return
        from lbtrace.session.additions import Additions  # imported here: few plans grow
        from lbtrace.session.attached import Attached

        own = self._object, self._reader, specs, self._links, self.mode
        to = Attached(*own, only, self._probed, reach, root)
        self._growth = Additions(self.plan, self._later, to, self.target.pids, self.on_note)
        held.callback(self._growth.close)
        if (descriptor := self._growth.fileno()) >= 0:
            self._waiter.register(descriptor, select.EPOLLIN)

    def _watch_stacks(self, root: int, held: ExitStack) -> None:
        """Before probes are attached: the first stack of a process that runs needs the tables."""
        if self.plan.walks_stacks:
            # Imported here because few traces have them.
            from lbtrace.session.callers import Callers
            from lbtrace.session.stack_files import watch

            traced = self._object, self.plan, self._probed.files, root
            self._stack_files = held.enter_context(watch(*traced, self.target.command))
            self._waiter.register(self._stack_files.fileno(), select.EPOLLIN)
            self._callers = Callers(self._stack_files.names) if self.plan.stack_depth else None
        if self.plan.aggregates:
            from lbtrace.session.aggregation import prepare  # imported here: most show calls

            self._aggregation = prepare(self._object, self.options.interval, self._stack_files)

    def _named(self, batch: Batch) -> Iterator[Batch | Addition]:
        for part in self._callers.name(batch, self.plan) if self._callers else (batch,):
            self.plan = self.plan.grown(part) if isinstance(part, Addition) else self.plan
            yield part

    def _make_step(self, steps: int) -> Callable[[], None]:
        """Return what is called when one of that many steps of attaching is done, and before."""
        done = count()

        def step() -> None:
            self._check_interrupted()
            self.on_attaching(next(done), steps)

        return step

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        """Detach; after an error, leave detaching to the kernel."""
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

    @property
    def begun(self) -> bool:
        """Whether the probes are attached, and the command runs if there is one."""
        return self.attached and (self.child is None or self.child.released)

    def interrupt(self, number: int) -> None:
        """Give up what has not `begun`, soon: SystemExit with 128 + ``number`` is raised where
        that can be done in order. Safe in a signal handler."""
        self._interrupted = number

    def _check_interrupted(self) -> None:
        if self._interrupted:
            raise SystemExit(128 + self._interrupted)

    def stop(self) -> None:
        """End `batches` soon, with all that happened until now. Safe in a signal handler."""
        self._stopping = True

    def hurry(self) -> None:
        """When the trace has ended, yield what waits for a moment only, and count the rest as
        lost. Once it has `begun`; safe in a signal handler."""
        self._backlog.hurried = True

    def batches(self) -> Iterator[Batch | Aggregates | Addition]:
        """Yield what the probes send, until `stop`, the process's end, or an option's bound. Where
        they aggregate instead, all that they have aggregated, once a second and at the end. An
        `Addition` is yielded before any event from its probes.

        The ring is emptied before each batch that is yielded, so a slow reader fills memory (to a
        bound) rather than the ring. A batch without events says that for a moment there were none.
        Raises `TargetError` where the command cannot be executed.
        """
        aggregation = self._aggregation
        if aggregation:
            aggregation.begin()
        for batch in self._batches():
            yield batch
            if aggregation and aggregation.is_due():
                yield aggregation.read_due(self.plan)
        if aggregation:
            yield aggregation.read(self.plan)

    def _batches(self) -> Iterator[Batch | Addition]:
        self._check_interrupted()
        duration, backlog = self.options.duration, self._backlog
        budget = self._budget = Budget(self.options, self.plan, backlog, self._object)
        end = None if duration is None else time.monotonic() + duration
        if self.child:
            self.child.release()
            if self._interrupted:  # it came between the check and the release
                self.child.send(self._interrupted)
        ended = yielded = False
        while not budget.spent:
            woken = self._wait(end, idle=not (backlog or ended))
            self._look_at_files(at_once=bool(_TIME_IS_UP in woken or self._ends.ended(woken)))
            yield from self._grow(budget)
            if not ended and (self._stopping or _TIME_IS_UP in woken or self._is_over(woken)):
                backlog.end()
                self._detach(backlog.collect)
                ended, self._growth = True, None
            if ended and backlog.is_late():
                backlog.discard()
                break
            if ended or not backlog or self._reader.is_filling():
                backlog.collect()
            if backlog:
                yielded = True
                yield from self._named(budget.take())
            elif ended:
                last = backlog.unreported_losses()
                if last.events:
                    yield last
                break
            elif yielded or self.restless or (self._aggregation and self._aggregation.is_due()):
                yielded = False
                yield Batch(b"")
        self._detach()
        if self._alone and (children := self._object.children()):
            self.on_note(processes.describe_untraced(children))

    def _grow(self, budget: Budget) -> Iterator[Addition]:
        """What the plan gets since this was asked last."""
        if self._stack_files:
            self._stack_files.look()
        for addition in self._growth.look(self.plan, self.on_note) if self._growth else ():
            self.plan = self.plan.grown(addition)
            budget.grow(self.plan)
            yield addition

    def running(self) -> list[Running]:
        """Return the processes of the command, or that a pid's process forked, that still run.

        To be asked before the session is left.
        """
        first = [self.child.pid] if self.child and self.child.poll() is None else []
        forked = (pid for pid in self._object.followed if pid not in self.target.pids)
        return [*still_running([*first, *forked])]

    def _is_over(self, woken: set[int]) -> bool:
        """Whether all processes have ended that the trace is to wait for."""
        self.target_ended |= self._ends.are_all(woken)
        if not (self.target_ended and self.options.until_last):
            return self.target_ended
        return self._followed.have_ended(self._object.followed)

    def _look_at_files(self, *, at_once: bool) -> None:
        if not (self._probed.is_due() or at_once):
            return
        notes, harmful = self._probed.look(self.target.pids, follows=self.target.follow)
        self.broken_off |= harmful
        for note in notes:
            self.on_note(note)
        if harmful:
            self.stop()

    def losses(self) -> Losses:
        """Return what the kernel side has lost until now."""
        counted = (self._budget and self._budget.losses) or self._object.losses()
        return replace(counted, unwritten=self._backlog.discarded)

    def _detach(self, collect: Callable[[], None] = lambda: None) -> None:
        total = len(self._links)
        self._detaching = True

        def tick(left: int) -> None:
            collect()
            self.on_detaching(total - left, total)

        self._links.close(tick)
        self._detaching = False

    def aggregated(self) -> Aggregates:
        """Return what has been aggregated until now, while this is entered."""
        return self._aggregation.read(self.plan) if self._aggregation else Aggregates(0)

    def _wait(self, end: float | None, *, idle: bool) -> set[int]:
        """Wait a moment, if ``idle``; return the descriptors at which something happened."""
        timeout = POLL_MS / 1000 if idle else 0.0
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                return {_TIME_IS_UP}
            timeout = min(timeout, left)
        with self._reader.asleep() if idle else nullcontext():
            return {descriptor for descriptor, _ in self._waiter.poll(timeout)}
