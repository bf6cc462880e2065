"""Numbers that are reused, programs that are executed."""

from __future__ import annotations

from lbtrace.calls.lives import Lives
from lbtrace.model import Thread

FIRST = Thread(7, 7, "first", 1, life=50, programs=3)


def test_the_same_thread_goes_on() -> None:
    lives = Lives()
    for thread in (FIRST, Thread(7, 7, "renamed", 2, 50, 0, 3), Thread(7, 8, "other", 3, 60, 0, 3)):
        assert lives.note(thread) == ""
    assert (lives.threads, lives.processes) == (0, 0)


def test_a_number_given_to_another_process() -> None:
    lives = Lives()
    lives.note(FIRST)
    assert lives.note(Thread(7, 7, "first", 9, life=90, programs=3)) == "process"
    assert (lives.threads, lives.processes) == (1, 1)


def test_a_number_given_to_another_thread() -> None:
    lives = Lives()
    for tid, life in ((7, 50), (8, 60)):
        lives.note(Thread(7, tid, "t", 1, life, 0, 3))
    assert lives.note(Thread(7, 8, "t", 2, 70, 0, 3)) == "thread"
    assert (lives.threads, lives.processes) == (1, 0)
    # A thread of another process is another one anyway.
    assert lives.note(Thread(9, 8, "t", 3, 80, 0, 1)) == "thread"
    assert (lives.threads, lives.processes) == (1, 0)


def test_a_program_executed_by_any_thread_ends_the_others() -> None:
    lives = Lives()
    lives.note(Thread(7, 8, "other", 1, life=60, programs=3))
    assert lives.note(Thread(7, 7, "second", 2, life=50, programs=4)) == "process"
    assert lives.note(Thread(7, 7, "second", 3, life=50, programs=4)) == ""
    assert (lives.threads, lives.processes) == (0, 0)
