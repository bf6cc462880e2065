"""By which values rows are made: functions and processes, or what ``--by`` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct as Layout
from typing import Any, NamedTuple, TypeVar

from lbtrace.calls.decoders import Readers
from lbtrace.calls.payload import Context
from lbtrace.model import Aggregate, Fetch, Grouping, Plan
from lbtrace.model.wire_limits import KEY_WORDS, SMALL_CHUNK
from lbtrace.values.base import Fetched
from lbtrace.values.datum import UNDECODABLE, Datum, json_of

WORDS = Layout(f"<iI{KEY_WORDS}Q")
"""A ``struct lbt_aggregate_key`` after the process: bucket, faults and words; texts follow."""


class OfKey(NamedTuple):
    """What was aggregated at a key. The function, the file it is in and the process are empty where
    they are not of the key, ``by`` has all values where any are named."""

    name: str
    binary: str
    pid: int
    by: dict[str, Any]
    rows: list[Aggregate]


def by_key(plan: Plan, aggregated: Sequence[Aggregate]) -> Iterator[OfKey]:
    """Yield what was aggregated, by key."""
    found: dict[tuple[object, ...], OfKey] = {}
    decoders: dict[int, Callable[[Aggregate], tuple[Datum, ...]]] = {}
    of_function = not plan.by or "func" in plan.by
    of_process = not plan.by or "pid" in plan.by
    for row in aggregated:
        probe = plan.probes[row.probe]
        if probe.function < 0:
            continue
        if row.probe not in decoders:
            decoders[row.probe] = decoder(probe.grouping or Grouping())
        shown = tuple(map(_plain, decoders[row.probe](row)))
        number, pid = probe.function if of_function else -1, row.pid if of_process else 0
        key: tuple[object, ...] = number, pid, shown, tuple(map(type, shown))  # as True is 1
        try:
            of_key = found.get(key)
        except TypeError:  # records are dicts
            key = number, pid, repr(shown)
            of_key = found.get(key)
        if of_key is None:
            function = plan.functions[probe.function]
            name, binary = (
                (function.name, plan.path_of(function.binary)) if of_function else ("", "")
            )
            named = {"func": name, "pid": pid}
            rest = iter(shown)
            by = {each: named[each] if each in named else next(rest, None) for each in plan.by}
            of_key = found[key] = OfKey(name, binary, pid, by, [])
        of_key.rows.append(row)
    yield from found.values()


_Row = TypeVar("_Row")


def in_order(rows: Sequence[_Row], order: Callable[[Any], tuple[Any, ...]]) -> list[_Row]:
    """Return rows in the order of what is ``order``, then of their keys: of numbers by size."""
    try:
        return sorted(rows, key=lambda row: (*order(row), *row.by.values()))  # type: ignore[attr-defined]
    except TypeError:  # values of several types, or some that could not be read
        return sorted(rows, key=lambda row: (*order(row), repr(row.by)))  # type: ignore[attr-defined]


def _plain(datum: Datum) -> Any:
    """As JSON has it."""
    if type(datum) is int:
        return datum
    found = json_of(datum)
    return str.__str__(found) if isinstance(found, str) else found  # names are more than text


def decoder(grouping: Grouping) -> Callable[[Aggregate], tuple[Datum, ...]]:
    """Return what decodes the values of a key."""
    texts = range(grouping.texts)
    fetches = tuple(Fetch(read="string" if n in texts else "value") for n in range(KEY_WORDS))
    made = Readers(fetches, Context())
    readers = [made.reader(value) for value in grouping.by]
    size = WORDS.size + SMALL_CHUNK * grouping.texts

    def decode(row: Aggregate) -> tuple[Datum, ...]:
        if len(row.key) < size:  # damaged
            return (UNDECODABLE,) * len(readers)
        _, faults, *words = WORDS.unpack_from(row.key)
        pieces: dict[int, bytes | memoryview] = {}
        for number in texts:
            start = WORDS.size + SMALL_CHUNK * number
            text = row.key[start : start + SMALL_CHUNK]
            if not words[number]:  # the name of a thread has no length of its own
                text = text.split(b"\0", 1)[0]
                words[number] = len(text) << 32 | len(text)
            pieces[number] = text[: words[number] & 0xFFFF_FFFF]
        fetched = Fetched(words, pieces, faults, row.pid)
        return tuple([read(fetched) for read in readers])

    return decode if readers else lambda row: ()
