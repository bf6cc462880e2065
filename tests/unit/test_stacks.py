from __future__ import annotations

from lbtrace.calls.stack_regions import Region, Regions, own_stack

LOW, HIGH = Region(0x1000, 0x2000), Region(0x2000, 0x3000)


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
    later = Region(0x1800, 0x2800)
    regions.learn(1, later)
    assert regions.find(1, 0x2000) == later
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
    regions.learn(1, Region(0x1000, 0x1000))
    assert regions.find(1, 0x1000) is None


def test_an_array_in_a_frame_is_a_stack_as_long_as_the_frame_is_there():
    regions, lane = Regions(), own_stack(1, 7)
    regions.learn(1, LOW)
    regions.nest(LOW, lane, 0x0F00)
    assert regions.left(lane, 0x0E00) == []
    assert regions.left(own_stack(1, 8), 0x2100) == []
    assert regions.left(lane, 0x2100) == [LOW]
    assert regions.find(1, 0x1800) is None
    assert regions.left(lane, 0x2100) == []
