"""The slots of an event go first to values of which nothing may be left out."""

from __future__ import annotations

from lbtrace.abi import Locations
from lbtrace.abi.locations import Detail, Location
from lbtrace.fetch.call_values import plan_values
from lbtrace.model import Fetch, Formal, Integer, Prototype, String, Type, Value, Vector
from lbtrace.recognize.slots import Slots

NUMBER = Integer("int", 4, True)
TEXT = String("std::string", 32, 0, 8)
TEXTS = Vector("std::vector<std::string>", 24, TEXT, 32, 0, end=8)


def taken(*types: Type) -> tuple[Value, ...]:
    """What is shown of parameters that lie in memory."""
    formals = tuple(Formal(f"p{n}", type) for n, type in enumerate(types))
    places = tuple(Location(memory=Fetch(register="di", offset=64 * n)) for n in range(len(types)))
    return plan_values(Prototype(formals), Locations(places, Location()), 16, Detail()).parameters


def test_elements_with_text_are_shown_while_there_is_room() -> None:
    (texts,) = taken(TEXTS)
    assert len(texts.members) == 3
    assert all(text.slot >= 0 for text in texts.members)


def test_elements_leave_slots_to_the_parameters_after_them() -> None:
    first, second, number, text = taken(TEXTS, TEXTS, NUMBER, TEXT)
    assert min(number.slot, text.slot) >= 0
    assert len(first.members) == len(second.members) == 1


def test_what_cannot_be_left_out_comes_first() -> None:
    *texts, last = taken(TEXTS, *[TEXT] * 6, TEXT)
    assert [len(value.members) for value in texts] == [0] * 7
    assert last.reason == "too many values"


def test_values_without_parts_need_no_slot() -> None:
    assert Slots(16).reserve((0, 0), 3) == 3
