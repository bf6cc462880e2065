"""Numbers that are reused, programs that are executed."""

from __future__ import annotations

from lbtrace.calls.thread_lifetimes import ThreadLifetimes
from lbtrace.model import Thread

FIRST = Thread(7, 7, "first", 1, life=50, programs=3)


def test_the_same_thread_continues() -> None:
    lifetimes = ThreadLifetimes()
    for thread in (FIRST, Thread(7, 7, "renamed", 2, 50, 0, 3), Thread(7, 8, "other", 3, 60, 0, 3)):
        assert lifetimes.observe(thread) == ""
    assert (lifetimes.threads, lifetimes.processes) == (2, 1)


def test_a_number_given_to_another_process() -> None:
    lifetimes = ThreadLifetimes()
    lifetimes.observe(FIRST)
    assert lifetimes.observe(Thread(7, 7, "first", 9, life=90, programs=3)) == "process"
    assert (lifetimes.threads, lifetimes.processes) == (2, 2)


def test_a_number_given_to_another_thread() -> None:
    lifetimes = ThreadLifetimes()
    for tid, life in ((7, 50), (8, 60)):
        lifetimes.observe(Thread(7, tid, "t", 1, life, 0, 3))
    assert lifetimes.observe(Thread(7, 8, "t", 2, 70, 0, 3)) == "thread"
    assert (lifetimes.threads, lifetimes.processes) == (3, 1)
    # A thread of another process is another one anyway.
    assert lifetimes.observe(Thread(9, 8, "t", 3, 80, 0, 1)) == "thread"
    assert (lifetimes.threads, lifetimes.processes) == (4, 2)


def test_a_program_executed_by_any_thread_ends_the_others() -> None:
    lifetimes = ThreadLifetimes()
    lifetimes.observe(Thread(7, 8, "other", 1, life=60, programs=3))
    assert lifetimes.observe(Thread(7, 7, "second", 2, life=50, programs=4)) == "process"
    assert lifetimes.observe(Thread(7, 7, "second", 3, life=50, programs=4)) == ""
    assert (lifetimes.threads, lifetimes.processes) == (2, 1)
