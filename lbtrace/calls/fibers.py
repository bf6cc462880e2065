"""The stacks among which programs switch by themselves, known by their pointers."""

from __future__ import annotations

from lbtrace.calls.stack_regions import LARGEST, own_stack

ROOM = 1024
"""Bytes that code puts on its stack before it calls a function on another, at most."""

SHARED = -1
"""The number of stacks that take turns in the same memory, as those which libaco copies there, and
were left at the same place: which of them continues there is not known, only how many wait."""

MOST = 64
"""Stacks that a thread has left for new ones, of which it is known where, at most."""

WORD = 8
"""Bytes between two places at which a stack may be left."""


class Fibers:
    """A stack continues where it was left, or a little above: the pointer that code keeps may be
    that after its return (libaco), or what another function has kept before (as setjmp).

    A thread counts as being on its own stack until it switches, unless it was seen to `begin` on
    another. If another thread continues on that one, it was none: the thread had switched before
    the trace.
    """

    def __init__(self) -> None:
        self._left: dict[int, dict[int, tuple[int, int]]] = {}
        self._places: dict[int, dict[int, int]] = {}
        self._entered: dict[int, list[int]] = {}
        self._running: dict[int, int] = {}
        self._away: dict[int, tuple[int, bool]] = {}

    def has_begun(self, tid: int) -> bool:
        """Return whether it is known on which stack a thread began to be seen."""
        return tid in self._running

    def begin(self, tid: int, frame: int, top: int, *, leads: bool) -> None:
        """A thread is seen first at ``frame``, with the upper end of its own stack at ``top``: that
        it is on it, or else on one that is unknown. A process's first thread ``leads``."""
        own = _is_below(frame, top, leads=leads)
        self._running[tid] = 0 if own else frame
        if not own:
            self._away[tid] = top, leads

    def knows(self, pid: int, pointer: int) -> bool:
        """Return whether a stack was left at ``pointer``."""
        return pointer in self._left.get(pid, ())

    def switch(
        self, pid: int, tid: int, pointer: int, to: int, *, own: bool, kept: bool = True
    ) -> list[int]:
        """A thread leaves a stack at ``pointer`` for another; ``own``: it may be the thread's own.
        The pointer is ``kept`` by what switches, or else by what ran before.
        Return the numbers of stacks that are over: of any that had the number of the other one
        before, if that is new, and of what counted as a thread's own."""
        left = self._left.setdefault(pid, {})
        if 0 <= to - pointer <= WORD:
            return []  # it is the same stack
        at = self._find(pid, to, WORD if kept else ROOM)
        self._leave(pid, pointer, self._running.get(tid, 0), tid if own else 0)
        if at is None and self._comes_back(tid, to):
            left[to], at = (0, tid), to
        if at is not None:
            return self._continue(pid, tid, at)
        self._end(pid, to)
        self._entered[tid] = [*self._entered.get(tid, ())[-MOST:], pointer]
        self._running[tid] = to
        return [to]

    def _leave(self, pid: int, pointer: int, number: int, of: int) -> None:
        """A stack is left, perhaps where others were that have not continued."""
        left, places = self._left[pid], self._places.setdefault(pid, {})
        former, count = left.get(pointer, (0, 0))
        if former == SHARED:
            left[pointer] = SHARED, count + 1
        elif former not in (0, number):
            left[pointer] = SHARED, 2
        else:
            left[pointer] = number, of
            if number:
                places[number] = pointer

    def _find(self, pid: int, to: int, near: int) -> int | None:
        """Return where the stack was left that continues at ``to``, at most ``near`` bytes above;
        None where none was, or which one is not known, or where a stack begins anew in the memory
        of one that began there, too."""
        left = self._left[pid]
        at = next((at for at in range(to, to - near - 1, -WORD) if at in left), None)
        if at is None:
            return None
        number, count = left[at]
        if number == SHARED:
            left[at] = SHARED, count - 1
            if count == 1:
                del left[at]
            return None
        return None if number == to != at else at

    def _end(self, pid: int, number: int) -> None:
        """Forget a stack in the memory of which another begins; it may continue after that."""
        place = self._places.get(pid, {}).pop(number, None)
        if place is not None and self._left[pid].get(place, (0, 0))[0] == number:
            self._left[pid][place] = SHARED, 1

    def come_back(self, pid: int, tid: int, to: int) -> list[int]:
        """A thread ends a call on another stack, and continues on the one that it left at ``to`` or
        a little below. Return the numbers of stacks that are over."""
        left, ended = self._left.setdefault(pid, {}), self._running.get(tid, 0)
        near = [at for at in left if 0 <= to - at < ROOM] if to not in left else [to]
        if not near:
            if not self._comes_back(tid, to):
                return []  # the call was made on the same stack
            left[to], near = (0, tid), [to]
        over = self._continue(pid, tid, max(near))
        return over if ended in (0, self._running[tid]) else [*over, ended]

    def entered_from(self, pid: int, tid: int) -> list[tuple[int, int]]:
        """Return where a thread left stacks for new ones since, and their numbers, the last one
        first; not those that have continued."""
        left = self._left.get(pid, {})
        places = reversed(self._entered.get(tid, ()))
        return [(at, left[at][0]) for at in places if at in left and left[at][1] in (0, tid)]

    def _continue(self, pid: int, tid: int, at: int) -> list[int]:
        """A thread continues on the stack that was left ``at`` a pointer, or begins a new one
        there."""
        number, of = self._left[pid].pop(at, (at, 0))
        entered, over = self._entered.get(tid, []), list[int]()
        if at in entered:
            del entered[entered.index(at) :]
        if not number and of not in (0, tid):
            number, over = at, [at, own_stack(pid, of)[1]]
        self._running[tid] = number
        return over

    def _comes_back(self, tid: int, to: int) -> bool:
        """Whether a thread that began to be seen on another stack continues on its own for the
        first time."""
        top, leads = self._away.get(tid, (0, False))
        if not top or not _is_below(to, top, leads=leads):
            return False
        del self._away[tid]
        return True

    def lose(self, pid: int, tid: int, frame: int) -> int:
        """Return the number of an unknown stack, for a thread that may have switched unseen and now
        runs at ``frame``; 0 where the process does not switch."""
        if pid not in self._left:
            return 0
        self._running[tid] = frame
        return frame

    def made_by(self, pid: int, tid: int) -> set[int]:
        """Return the numbers of stacks that a process has left for others, and of the one on which
        a thread of it runs, but for threads' own."""
        left = self._left.get(pid, {}).values()
        return {*(number for number, _ in left), self._running.get(tid, 0)} - {0, SHARED}

    def fork(self, parent: int, tid: int, child: int) -> None:
        """A thread of ``parent`` forks ``child``, which has a copy of each stack."""
        self._running.pop(child, None)
        if tid in self._running:
            self._running[child] = self._running[tid]
        if parent in self._left:
            own = {tid: child}
            self._left[child] = {
                pointer: (number, own.get(by, by))
                for pointer, (number, by) in self._left[parent].items()
            }
            self._places[child] = self._places.get(parent, {}).copy()

    def running(self, tid: int) -> int:
        """Return the number of the stack on which a thread runs, 0 for its own."""
        return self._running.get(tid, 0)

    def forget(self, pid: int) -> None:
        """A process has ended, or executes another program."""
        self._left.pop(pid, None)
        self._places.pop(pid, None)
        self._entered.pop(pid, None)
        self._running.pop(pid, None)


def _is_below(frame: int, top: int, *, leads: bool) -> bool:
    """Whether a frame may be on the stack of which something near the end is at ``top``, for a
    process's first thread, which ``leads``, the end itself."""
    return top - frame <= LARGEST and (leads or frame < top)
