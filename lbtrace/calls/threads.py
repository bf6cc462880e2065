"""Threads and processes, as they begin, fork and end: which stacks are theirs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from lbtrace.calls.call_stack import BEYOND, NEVER, Stack
from lbtrace.calls.ends import Ends
from lbtrace.calls.forks import OWN, RETURN_SLOT, Inheritance, Inheritances, continue_calls
from lbtrace.calls.lanes import Lanes
from lbtrace.calls.loss_times import NEVER_AGAIN, LastLosses
from lbtrace.calls.payload import Blob
from lbtrace.calls.points import PointAssembler
from lbtrace.calls.probe_decoding import Act, ProbeDecoder
from lbtrace.calls.thread_lifetimes import ThreadLifetimes
from lbtrace.model import (
    KIND,
    LOSS,
    OPEN,
    Event,
    Thread,
    executed_programs,
    forked_thread,
    lost_events,
)
from lbtrace.probes import LANDINGS

LEAVING = LANDINGS | {"exchange"}
"""Roles of probes that only say what becomes of calls."""


class Threads:
    """The ``stacks`` of threads, and of what else calls belong to. With ``reported``, probes
    report where programs set some up."""

    def __init__(
        self,
        ends: Ends,
        points: PointAssembler,
        lifetimes: ThreadLifetimes,
        *,
        reported: bool,
    ) -> None:
        self.stacks: dict[int | tuple[int, int], Stack] = {}
        self.lanes = Lanes(self._renew_fiber, stacks=reported)
        self.lifetimes = lifetimes
        self.acts: Mapping[str, Act] = {"exchange": self._exchange, "lane end": self._end_lane}
        self._ends = ends
        self._points = points
        self._inheritances = Inheritances()

    @staticmethod
    def key(event: Event) -> int | tuple[int, int]:
        """Return what calls are matched by: the thread, else the goroutine or stack of its
        process."""
        return (event.pid, event.lane) if event.lane else event.tid

    def note(self, threads: deque[Thread], time: int) -> int:
        """Apply the records of ``threads`` up to ``time``; return the time of the next one."""
        while threads and threads[0].time <= time:
            thread = threads.popleft()
            if over := self.lifetimes.observe(thread):
                if over == "process":
                    self._let_execve_return(thread.pid, thread.tid, thread.time)
                self._renew(thread, whole=over == "process")
            self._ends.visitor.thread(thread)
        return threads[0].time if threads else NEVER_AGAIN

    def _renew(self, thread: Thread, *, whole: bool) -> None:
        """Reset a thread or, with ``whole``, its process."""
        for key, stack in list(self.stacks.items()):
            if key == thread.tid or (whole and stack.pid == thread.pid):
                self.abandon(stack)
                del self.stacks[key]
        if whole:
            self.lanes.forget(thread.pid)
            self._inheritances.pop(thread.pid, None)
            if self._ends.unseen:
                self._ends.unseen.forget(thread.pid)

    def _renew_fiber(self, pid: int, lane: int) -> None:
        """End the calls of the stack that had this number before."""
        if former := self.stacks.pop((pid, lane), None):
            self.abandon(former)
        if pid in self._inheritances:
            self._inheritances[pid].stacks.pop(lane, None)

    def finish(self) -> None:
        """End all calls that are still open."""
        for stack in self.stacks.values():
            self.abandon(stack)
        self.stacks.clear()
        self._inheritances.clear()

    def begin(self, decoding: ProbeDecoder, event: Event) -> Stack | None:
        """Return the stack of an event that is the first one there; None where it begins none."""
        if decoding.role in LEAVING and event.kind & KIND != LOSS:
            if decoding.role in LANDINGS:
                self.land_first(event)
            return None  # nothing is known that could be left
        key = self.key(event)
        former = self.stacks.get(key)
        if former is not None:  # the number was given to a thread of another process
            self.abandon(former)
        if (
            decoding.role in ("opens", "point", "more values") or decoding.pair
        ) and event.frame:  # not a loss at the end of all
            self.lifetimes.see(event.pid, event.tid)
        lost = self._ends.losses.of(event.pid, event.tid if key == event.tid else 0)
        stack = self._continue(event, lost) if event.pid in self._inheritances else None
        stack = self.stacks[key] = stack or Stack(event.pid, lost)
        lane = 0 if decoding.finds_goroutines else event.lane
        stack.exact = self.lanes.is_exact(event.pid, lane)
        return stack

    def fork(self, event: Event) -> None:
        """A thread forks a process, which has a copy of all stacks if it continues on one."""
        thread, continues = forked_thread(event, self.lifetimes.name(event.tid))
        if self.lifetimes.executes(event.pid, thread.programs):
            self._renew(Thread(event.pid, event.tid, thread.name), whole=True)
        inheritance = Inheritance(thread, event.tid, event.pid)
        self.lanes.locate(event)
        if continues:
            self._fill(inheritance, event)
        if not (inheritance.stacks or (continues and self.lanes.has_stacks)):
            self._inheritances.pop(thread.pid, None)  # of a former process with this number
            return
        if self.lifetimes.expect(thread):
            self._renew(thread, whole=True)
        self.lanes.fork(event.pid, event.tid, thread.pid)
        given_up = self._inheritances.add(inheritance)
        if given_up is not None and not given_up.begun:
            self.lanes.forget(given_up.thread.pid)

    def execute(self, event: Event) -> None:
        """A process has executed a program, which ends all of its calls; that of execve returns."""
        self._let_execve_return(event.pid, event.tid, event.time, event.cpu)
        self.lifetimes.executes(event.pid, executed_programs(event))
        self.lanes.execute(event.pid)
        self._renew(Thread(event.pid, event.pid, ""), whole=True)

    def _let_execve_return(self, pid: int, tid: int, time: int, cpu: int | None = None) -> None:
        # It may be on another stack than the thread's, as that of vfork's child is, and of another
        # thread, whose number is the first one's from now on.
        stacks = [stack for stack in self.stacks.values() if stack.pid == pid and stack.calls]
        executing = [stack for stack in stacks if self._ends.executes(stack.calls[-1])]
        if len(executing) == 1:
            self._ends.let_execve_return(executing[0], tid, time, cpu)

    def _fill(self, inheritance: Inheritance, event: Event) -> None:
        """Add copies of all stacks with calls that the thread of an event, which forks, has."""
        for lane in (OWN, *self._other_lanes(event.pid)):
            own = self.stacks.get((event.pid, lane) if lane else event.tid)
            if own is not None and own.pid == event.pid:
                inheritance.add(lane, own)
            elif (former := self._inherited(event, lane)) is not None:
                inheritance.add(lane, former.stacks[lane], former.landed.get(lane))
        if event.lane in inheritance.stacks:
            self._leave_out(inheritance.stacks[event.lane], event.frame - RETURN_SLOT)

    def _other_lanes(self, pid: int) -> set[int]:
        """The stacks of a process that are no thread's, also those that it has inherited."""
        made = {key[1] for key in self.stacks if isinstance(key, tuple) and key[0] == pid}
        former = self._inheritances.get(pid)
        return made.union(former.stacks if former else ()) - {OWN}

    def _inherited(self, event: Event, lane: int) -> Inheritance | None:
        """What the process of an event has inherited, if that lane is among it and not continued
        yet: of those of threads only its first one's."""
        found = self._inheritances.get(event.pid)
        if found is None or lane not in found.stacks or (lane == OWN and event.tid != event.pid):
            return None
        return found

    def _leave_out(self, stack: Stack, frame: int, *, watched: bool = True) -> None:
        """Leave calls of lower frames out, which a thread had left before it forked, as its stack
        pointer shows; or, where they are not ``watched``, may have left."""
        while stack.calls and stack.calls[-1].frame < frame:
            call = stack.calls[-1]
            if not watched and self._ends.probes[call.probe].returns:
                return
            stack.calls.pop()
            stack.unhook(call, self._ends.probes[call.probe].by_uretprobe)

    def _continue(self, event: Event, lost: LastLosses) -> Stack | None:
        """The stack of the first event on it of a process that inherits some; None where it has not
        inherited that one."""
        lane = event.lane
        if event.kind & KIND == LOSS and lost_events(event)[0]:  # a fork: what is known is older
            del self._inheritances[event.pid]
            return None
        if (inheritance := self._inherited(event, lane)) is None:
            return None
        stack = inheritance.stacks.pop(lane)
        # What is over in the child, and whose return is not watched, may have been over before.
        self._leave_out(stack, event.frame + (event.kind & KIND == OPEN), watched=False)
        if not stack.calls:
            return None
        lost.inherit(stack.lost, inheritance.thread.time + 1)
        stack.lost = lost
        fork = continue_calls(stack, inheritance, lane)
        named = inheritance.begun or self.lifetimes.has_seen(event.pid, event.pid)
        if inheritance.thread.name and not named:
            self._ends.visitor.thread(inheritance.thread)
        inheritance.begun = True
        self.lifetimes.see(event.pid, event.tid)
        if shown := fork.calls[: self._ends.max_depth]:
            self._ends.visitor.fork(replace(fork, depth=len(shown), calls=shown))
        if lane in inheritance.landed:
            self._ends.close_below(stack, inheritance.landed.pop(lane) + 1, event.time)
        return stack

    def land_first(self, event: Event) -> None:
        """Note that calls of a frame and below were left of a stack on which a process has made no
        call, lest the program is another one by now: only events that name threads tell."""
        if (inheritance := self._inherited(event, event.lane)) is not None:
            inheritance.land(event.lane, event.frame)

    def _exchange(self, stack: Stack, *_: object) -> None:
        """End all calls of a stack: others may be on it from now on."""
        self.abandon(stack)
        stack.last_return_frame = NEVER

    def _end_lane(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Unwind the open calls of a goroutine that has ended; they were left by runtime.Goexit."""
        self._ends.close_left(stack, BEYOND, event)
        self.stacks.pop((event.pid, event.lane), None)

    def abandon(self, stack: Stack) -> None:
        """End all calls of a stack whose ends will not be seen."""
        self._points.report_waiting(stack)
        self._ends.end_down_to(stack, 0)
