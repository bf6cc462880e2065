"""How the values by which is aggregated become words of a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from lbtrace.errors import UsageError, option
from lbtrace.model import Fetch, Grouping, Value
from lbtrace.model.wire_limits import FROM_ENTRY, KEY_TEXTS, KEY_WORDS, SLOT_COMM


def group(
    keys: Sequence[tuple[bool, Value]],
    measures: Sequence[tuple[bool, int, bool]],
    fetches: tuple[Sequence[Fetch], Sequence[Fetch]],
    *,
    waits: bool,
) -> tuple[Grouping, Grouping]:
    """Return what the entry and what the return contribute to the key, and aggregate. ``keys`` and
    ``measures`` are values and slots, each with whether it is one of the return, and slots whether
    they are unsigned; ``fetches`` are those of both. If it ``waits``, the return aggregates, else
    the entry. Raises `UsageError`."""
    found = dict.fromkeys((late, slot) for late, value in keys for slot in _slots(value))

    def is_text(part: tuple[bool, int]) -> bool:
        late, slot = part
        own = fetches[late]
        return slot == SLOT_COMM or (slot < len(own) and own[slot].read in ("string", "bytes"))

    parts = sorted(found, key=lambda part: not is_text(part))
    texts = sum(map(is_text, parts))
    if len(parts) > KEY_WORDS or texts > KEY_TEXTS:
        raise UsageError(
            f"{option('by')}: a key has {KEY_WORDS} words at most, {KEY_TEXTS} of them texts",
            "name fewer values, or members of them",
        )
    by = tuple(
        _moved(value, {slot: n for n, (at, slot) in enumerate(parts) if at == late})
        for late, value in keys
    )
    slots = [tuple(slot if late == own else -1 for late, slot in parts) for own in (False, True)]
    taken = tuple(slot if late or not waits else slot + FROM_ENTRY for late, slot, _ in measures)
    unsigned = tuple(each for _, _, each in measures)
    entry = Grouping(by, texts, slots[0], () if waits else taken, unsigned)
    return entry, Grouping(by, texts, slots[1], taken, unsigned)


def _slots(value: Value) -> Iterator[int]:
    """Those of a value and of its parts."""
    if value.slot >= 0:
        yield value.slot
    for member in value.members:
        yield from _slots(member)


def _moved(value: Value, places: dict[int, int]) -> Value:
    """``value`` as it lies in the key."""
    members = tuple(_moved(member, places) for member in value.members)
    return replace(value, slot=places.get(value.slot, -1), members=members)
