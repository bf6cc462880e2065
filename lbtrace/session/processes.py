"""Whether the processes of a trace still run."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from errno import ESRCH
from functools import partial
from typing import TYPE_CHECKING

from lbtrace.bpf.backup_programs import with_backups
from lbtrace.errors import KernelError, TargetError
from lbtrace.model import OPEN, Plan, Target
from lbtrace.probes import ROLES, STACK_ROLES
from lbtrace.system.cgroups import find_id
from lbtrace.system.process import open_pid, still_running

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject, Whom

COUNT_PERIOD = 0.05
"""Seconds between two looks at which processes still run."""


FORGETTING = frozenset({"exited", "ended"})
"""Programs that forget a process or thread which ends: the kernel runs programs at one place in
the order in which they were attached, and a tracepoint that is traced there comes before."""


NOBODY = (1 << 32) - 1
"""The number of no process: where several are traced, each is a followed one."""


class Ends:
    """When the processes end for which a trace waits: ``waiter`` wakes at each."""

    def __init__(self, waiter: select.epoll) -> None:
        self._waiter = waiter
        self._pidfds: dict[int, int] = {}

    def watch(self, pid: int, held: ExitStack) -> None:
        """Wait for a process until ``held`` is closed. Raises `TargetError`."""
        descriptor = self._pidfds[pid] = open_pid(pid)
        held.callback(os.close, descriptor)
        self._waiter.register(descriptor, select.EPOLLIN)

    def by_now(self) -> list[int]:
        """Return which of those still waited for have ended."""
        poll = select.poll()
        for descriptor in self._pidfds.values():
            poll.register(descriptor, select.POLLIN)
        return self.ended({descriptor for descriptor, _ in poll.poll(0)})

    def ended(self, woken: Collection[int]) -> list[int]:
        """Return which of those still waited for have ended, by the descriptors that woke."""
        return [pid for pid, descriptor in self._pidfds.items() if descriptor in woken]

    def are_all(self, woken: Collection[int]) -> bool:
        """Return whether, with those that have ``ended``, none is left: to be asked once for each
        waking."""
        ended = self.ended(woken)
        for pid in ended:
            self._waiter.unregister(self._pidfds.pop(pid))
        return bool(ended) and not self._pidfds


class Followed:
    """The processes of a trace besides the first one."""

    def __init__(self) -> None:
        self._next_count = 0.0
        self._empty_counts = 0

    def have_ended(self, pids: Iterable[int]) -> bool:
        """Return whether none of these runs any more. To be asked again and again, once the
        first process has ended."""
        now = time.monotonic()
        if now < self._next_count:
            return False
        self._next_count = now + COUNT_PERIOD
        # A process may end while the child that it forks is not seen yet: none twice means none.
        some = any(still_running(pids))
        self._empty_counts = 0 if some else self._empty_counts + 1
        return self._empty_counts > 1


def find_traced(target: Target, root: int, *, follow: bool) -> Whom:
    """Return whose hits are traced, where ``root`` is the first process of ``target``, 0 for all.
    Raises `TargetError`."""
    from lbtrace.bpf.objects import Whom  # imported here, as all that needs libbpf

    cgroup = find_id(target.cgroup) if target.cgroup else 0
    several = len(target.pids) > 1
    own = 0 if root else os.getpid()
    return Whom(NOBODY if several else root, follow or several, cgroup, own)


def follow_processes(
    loaded: TraceObject, pids: Iterable[int], programs: Sequence[str], held: ExitStack
) -> Callable[[], None]:
    """Follow ``pids``, and report which processes fork and end, until ``held`` is closed: later
    than the probes, because processes that still run are listed when the trace has ended. Return
    what attaches those of `FORGETTING`, to be called after the probes are attached."""
    from lbtrace.bpf.links import Links  # imported here, as all that needs libbpf

    for pid in pids:
        loaded.followed.add(pid)
    following = Links()
    held.callback(following.close)

    def attach(*, forgetting: bool) -> None:
        for program in programs:
            if (program in FORGETTING) is forgetting:
                following.attach_tracepoint(loaded, program)

    attach(forgetting=False)
    return partial(attach, forgetting=True)


def find_programs(
    plan: Plan,
    *,
    follows: bool,
    several: bool,
    traces_children: bool,
    knows_registers: bool,
    preempted: bool,
) -> tuple[str, ...]:
    """Return the programs that learn of processes and threads which begin and end: where forked
    ones are followed, or ``several`` processes are traced, what is known of lanes is kept
    (`--within`), and calls are traced, which forked processes continue, and which end where their
    process executes a program. Where programs make stacks, one learns which of these signals
    interrupt, if the kernel ``knows_registers`` of tasks (bpf_task_pt_regs, 5.15). One learns when
    threads are woken, where it is asked how long they do not run. They have backup programs where
    they may be ``preempted`` (7.0)."""
    following = ("forked", "exited") if follows else ("exited",) if several else ()
    keeping = ("inherited", "ended") if plan.within else ()
    opens = any(probe.action == "send" and ROLES[probe.role].event == OPEN for probe in plan.probes)
    opens |= plan.may_grow and plan.added_action == "send"
    continuing = ("continued",) if traces_children and opens else ()
    executing = ("executed",) if opens else ()
    stacks = any(probe.role in STACK_ROLES for probe in plan.probes)
    interrupting = ("interrupted",) if stacks and knows_registers else ()
    found = (*following, *keeping, *continuing, *executing, *interrupting)
    waking = ("woken",) if plan.off_cpu else ()
    return (*(with_backups(found) if preempted else found), *waking)


@contextmanager
def of_living(pid: int) -> Iterator[None]:
    """Within, that the process has ended is a `TargetError`."""
    try:
        yield
    except KernelError as error:
        if not pid or error.errno != ESRCH:
            raise
        raise TargetError(
            f"process {pid} ended while lbtrace attached to it",
            "trace it from its start: lbtrace attach ... -- COMMAND",
        ) from None


def describe_untraced(children: int) -> str:
    """Return the note that so many child processes were not traced."""
    processes = "1 child process was" if children == 1 else f"{children:,} child processes were"
    return (
        f"{processes} not traced: the program imports no fork function,"
        " so lbtrace did not follow children"
    )
