"""The slots of an event go to what nothing may be left out of first."""

from __future__ import annotations

from lbtrace.arch import Detail, Places, fetched
from lbtrace.arch.places import Place
from lbtrace.model import Fetch, Formal, Integer, Prototype, String, Type, Value, Vector

NUMBER = Integer("int", 4, True)
TEXT = String("std::string", 32, 0, 8)
TEXTS = Vector("std::vector<std::string>", 24, TEXT, 32, 0, end=8)


def taken(*types: Type) -> tuple[Value, ...]:
    """What is shown of parameters that lie in memory."""
    formals = tuple(Formal(f"p{n}", type) for n, type in enumerate(types))
    places = tuple(Place(memory=Fetch(register="di", offset=64 * n)) for n in range(len(types)))
    return fetched(Prototype(formals), Places(places, Place()), 16, Detail()).parameters


def test_elements_with_text_are_shown_while_there_is_room() -> None:
    (texts,) = taken(TEXTS)
    assert len(texts.members) == 3
    assert all(text.slot >= 0 for text in texts.members)


def test_elements_leave_slots_to_the_parameters_behind_them() -> None:
    first, second, number, text = taken(TEXTS, TEXTS, NUMBER, TEXT)
    assert min(number.slot, text.slot) >= 0
    assert len(first.members) == len(second.members) == 1


def test_what_cannot_be_left_out_comes_first() -> None:
    *texts, last = taken(TEXTS, *[TEXT] * 6, TEXT)
    assert [len(value.members) for value in texts] == [0] * 7
    assert last.reason == "no slot left"
