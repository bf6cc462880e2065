"""By which values rows are made: functions and processes, or what ``--by`` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from struct import Struct as Layout
from typing import Any, TypeVar

from msgspec import Struct

from lbtrace.calls.decoders import Readers, is_plain
from lbtrace.calls.payload import Context
from lbtrace.model import Aggregate, Fetch, Grouping, Plan
from lbtrace.model.wire_limits import KEY_WORDS, SMALL_CHUNK
from lbtrace.tables.lazy import Lazy
from lbtrace.values.base import Fetched, Value
from lbtrace.values.base import decoder as word_decoder
from lbtrace.values.datum import FAULT, UNDECODABLE, Datum, json_of

WORDS = Layout(f"<iI{KEY_WORDS}Q")
"""A ``struct lbt_aggregate_key`` after the process: bucket, faults and words; texts follow."""


class Tallied(Aggregate, frozen=True, gc=False):
    """What was made of calls in place of the kernel: the values of the key are here."""

    values: tuple[Datum, ...] = ()


class OfKey(Struct, gc=False):
    """What was aggregated at a key: ``rows``, of ``count`` hits. The function, the file it is in
    and the process are empty where they are not of the key; ``values`` are those that are named, in
    their order."""

    plan: Plan
    function: int
    pid: int
    values: tuple[Any, ...]
    rows: list[Aggregate]
    count: int

    @property
    def name(self) -> str:
        """The function."""
        return "" if self.function < 0 else self.plan.functions[self.function].name

    @property
    def binary(self) -> str:
        """The file that the function is in."""
        if self.function < 0:
            return ""
        return self.plan.path_of(self.plan.functions[self.function].binary)

    @property
    def by(self) -> dict[str, Any]:
        """The values of the key, by their names."""
        return dict(zip(self.plan.by, self.values, strict=False))


def by_key(plan: Plan, aggregated: Iterable[Aggregate]) -> list[OfKey]:
    """Return what was aggregated, by key."""
    found: dict[tuple[object, ...], OfKey] = {}
    decoders: dict[int, tuple[int, Callable[[Any], tuple[Datum, ...]]]] = {}
    of_function = not plan.by or "func" in plan.by
    of_process = not plan.by or "pid" in plan.by
    for row in aggregated:
        known = decoders.get(row.probe)
        if known is None:
            probe = plan.probes[row.probe]
            decode = _values if isinstance(row, Tallied) else decoder(probe.grouping or Grouping())
            known = decoders[row.probe] = probe.function, decode
        function, decode = known
        if function < 0:
            continue
        shown = decode(row)
        number, pid = function if of_function else -1, row.pid if of_process else 0
        key: tuple[object, ...] = number, pid, shown
        if not _PLAIN.issuperset(map(type, shown)):
            shown = tuple(map(_plain, shown))
            key = number, pid, shown, tuple(map(type, shown))  # as True is 1
        try:
            of_key = found.get(key)
        except TypeError:  # records are dicts
            key = number, pid, repr(shown)
            of_key = found.get(key)
        if of_key is None:
            of_key = found[key] = OfKey(plan, number, pid, shown, [row], row.count)
            if plan.by and (of_function or of_process):
                named, rest = {"func": of_key.name, "pid": pid}, iter(shown)
                of_key.values = tuple(
                    [named[n] if n in named else next(rest, None) for n in plan.by]
                )
        else:
            of_key.rows.append(row)
            of_key.count += row.count
    return [*found.values()]


_Row = TypeVar("_Row")


def in_order(
    keys: Sequence[OfKey], rank: Callable[[OfKey], int], row: Callable[[OfKey], _Row]
) -> Sequence[_Row]:
    """Return a row for each of ``keys``, made when it is looked at: by what is their ``rank``, the
    largest first, then by name, process and values: numbers by size."""
    ranked: dict[int, list[OfKey]] = {}
    for each in keys:
        ranked.setdefault(rank(each), []).append(each)

    def ordered() -> Iterator[OfKey]:
        for number in sorted(ranked, reverse=True):
            ties = ranked[number]
            yield from ties if len(ties) == 1 else _by_name(ties)

    return Lazy(len(keys), map(row, ordered()))


def _by_name(keys: Sequence[OfKey]) -> Iterator[OfKey]:
    columns: list[Sequence[Any]] = [*zip(*[key.values for key in keys], strict=False)]
    kinds = [{*map(type, column)} for column in columns]
    if not all(kind <= _NUMBERS or kind == {str} for kind in kinds):
        columns = [[repr(key.values) for key in keys]]  # of several types, or not read
    if len({key.pid for key in keys}) > 1:
        columns.insert(0, [key.pid for key in keys])
    if len({key.function for key in keys}) > 1:
        columns.insert(0, [key.name for key in keys])
    order = [*range(len(keys))]
    for column in reversed(columns):  # one after the other is faster than all at once
        order.sort(key=column.__getitem__)
    return (keys[number] for number in order)


_values: Callable[[Tallied], tuple[Datum, ...]] = attrgetter("values")

_PLAIN = frozenset((int,))
"""Types of values that are as JSON has them."""

_NUMBERS = frozenset((int, float, bool))


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
    if grouping.by and is_plain(grouping.by, fetches) and all(v.slot >= 0 for v in grouping.by):
        return _plain_decoder(grouping.by)
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


def _plain_decoder(values: Sequence[Value]) -> Callable[[Aggregate], tuple[Datum, ...]]:
    """Return what decodes values that are words."""
    slots = sorted({value.slot for value in values})
    gaps = [slot - before - 1 for before, slot in zip((-1, *slots), slots, strict=False)]
    words = Layout("<4xI" + "".join(f"{8 * gap}xQ" for gap in gaps))
    readers = [
        (1 + slots.index(value.slot), 1 << value.slot, word_decoder(value.type)) for value in values
    ]
    unpack, size = words.unpack_from, WORDS.size

    def decode(row: Aggregate) -> tuple[Datum, ...]:
        if len(row.key) < size:  # damaged
            return (UNDECODABLE,) * len(readers)
        found = unpack(row.key)
        if faults := found[0]:
            return tuple([FAULT if faults & bit else read(found[n]) for n, bit, read in readers])
        return tuple([read(found[n]) for n, _, read in readers])

    return decode
