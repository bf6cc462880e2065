from __future__ import annotations

from lbtrace.calls.stack_regions import Region, Regions, own_stack

LOW, HIGH = Region(0x1000, 0x2000, "stack"), Region(0x2000, 0x3000, "stack")


def test_an_address_belongs_to_the_stack_that_holds_it():
    regions = Regions()
    regions.learn(1, HIGH)
    regions.learn(1, LOW)
    assert regions.find(1, 0x1800) == LOW
    assert regions.find(1, 0x2FF8) == HIGH
    assert regions.find(1, 0xFF8) is None
    assert regions.find(1, 0x3008) is None
    assert regions.find(2, 0x1800) is None


def test_memory_that_is_used_again():
    regions = Regions()
    regions.learn(1, LOW)
    regions.learn(1, HIGH)
    signals = Region(0x1800, 0x2800, "signal stack")
    regions.learn(1, signals)
    assert regions.find(1, 0x2000) == signals
    assert regions.find(1, 0x1000) is None


def test_a_process_that_executes_another_program_has_none():
    regions = Regions()
    regions.learn(1, LOW)
    regions.learn(2, LOW)
    assert regions.find(1, 0x800) is None  # it calls something
    regions.forget(1)
    assert regions.find(1, 0x1800) is None
    assert regions.find(2, 0x1800) == LOW


def test_what_a_program_sets_up_before_its_first_call_stays():
    regions = Regions()
    regions.learn(1, LOW)
    assert regions.find(1, 0x800) is None
    regions.learn(1, HIGH)
    regions.forget(1)
    assert regions.find(1, 0x2800) == HIGH
    assert regions.find(1, 0x1800) is None


def test_an_empty_stack_is_none():
    regions = Regions()
    regions.learn(1, Region(0x1000, 0x1000, "signal stack"))
    assert regions.find(1, 0x1000) is None


def test_a_stack_that_no_longer_serves_signals_is_one_like_others():
    regions, lane = Regions(), own_stack(1, 7)
    signals = Region(0x1000, 0x2000, "signal stack")
    regions.learn(1, signals)
    regions.nest(signals, lane, 0x0F00)
    regions.fork(1, 7, 2)
    regions.keep(1, signals)
    assert regions.find(1, 0x1800) == LOW
    assert regions.find(2, 0x1800) == signals  # the child has a copy
    assert regions.left(lane, 0x2100) == [LOW]


def test_an_array_in_a_frame_is_a_stack_as_long_as_the_frame_is_there():
    regions, lane = Regions(), own_stack(1, 7)
    regions.learn(1, LOW)
    regions.nest(LOW, lane, 0x0F00)
    assert regions.left(lane, 0x0E00) == []
    assert regions.left(own_stack(1, 8), 0x2100) == []
    assert regions.left(lane, 0x2100) == [LOW]
    assert regions.find(1, 0x1800) is None
    assert regions.left(lane, 0x2100) == []


def test_a_thread_has_its_own_stack_where_a_region_was():
    regions = Regions()
    regions.learn(1, LOW)
    assert regions.is_own(1, 7, 0x1800, 0x1F00, LOW)  # its data lie in the region
    assert regions.is_own(1, 7, 0x1800, 0x2F00, LOW)  # or little above the call
    assert not regions.is_own(1, 7, 0x1800, 0x9F00, LOW)
    assert not regions.is_own(1, 1, 0x1800, 0x2F00, LOW)  # the first thread's lie anywhere
    regions.nest(LOW, own_stack(1, 7), 0x0F00)
    assert not regions.is_own(1, 7, 0x1800, 0x2F00, LOW)
