"""The values of keys, decoded column by column: of tens of thousands of rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct as Layout
from typing import Any, cast

from lbtrace.calls.decoders import Readers, is_plain
from lbtrace.calls.payload import Context
from lbtrace.model import Aggregate, Fetch, Grouping, Probe
from lbtrace.model.wire_limits import KEY_WORDS, SMALL_CHUNK
from lbtrace.values.base import UNKNOWN_LENGTH, Fetched, Value
from lbtrace.values.base import decoder as word_decoder
from lbtrace.values.datum import UNDECODABLE, Datum, json_of

WORDS = Layout(f"<iI{KEY_WORDS}Q")
"""A ``struct lbt_aggregate_key`` after the process: bucket, faults and words; texts follow."""


_CUT = object()
"""A text of which there is more: it is decoded by itself."""


class Tallied(Aggregate, frozen=True, gc=False):
    """What was made of calls in place of the kernel: the values of the key are here."""

    values: tuple[Datum, ...] = ()


def columns_of(probe: Probe, rows: Sequence[Aggregate]) -> list[list[Any]]:
    """Return the values of the keys of ``rows``, of a probe, as JSON has them: a list for each
    value, of as many as there are rows."""
    if isinstance(rows[0], Tallied):
        return [[*map(_plain, column)] for column in zip(*map(_values, rows), strict=True)]
    grouping = probe.grouping or Grouping()
    if not grouping.by:
        return []
    keys, decode = [row.key for row in rows], _decoder(grouping)
    if {*map(len, keys)} != {WORDS.size + SMALL_CHUNK * grouping.texts}:  # damaged
        return [[decode(row, number) for row in rows] for number in range(len(grouping.by))]
    joined = memoryview(b"".join(keys))
    faults = _every(joined, len(keys), "I", 4)
    faulty = [at for at, fault in enumerate(faults) if fault] if any(faults) else []
    found = list[list[Any]]()
    for number, value in enumerate(grouping.by):
        column = _column(value, grouping.texts, keys, joined)
        if column is None:
            column = [decode(row, number) for row in rows]
        cut = [at for at, each in enumerate(column) if each is _CUT] if _CUT in column else []
        for at in {*faulty, *cut}:
            column[at] = decode(rows[at], number)
        found.append(column)
    return found


def _every(joined: memoryview, count: int, form: str, offset: int) -> list[int]:
    """The number at an ``offset`` in each of so many keys, which is as aligned as they are."""
    size = Layout(form).size
    return joined.cast(cast(Any, form))[offset // size :: len(joined) // count // size].tolist()


def _column(
    value: Value, texts: int, keys: Sequence[bytes], joined: memoryview
) -> list[Any] | None:
    """The values of a column of words, or of texts, that were read; None of other ones."""
    slot, place = value.slot, _FIRST + 8 * value.slot
    if slot < 0 or value.members:
        return None
    if slot < texts and value.type.native_form() == "text":
        lengths, whole = (_every(joined, len(keys), "I", place + half) for half in (0, 4))
        return _texts(keys, WORDS.size + SMALL_CHUNK * slot, lengths, whole)
    if not is_plain((value,), _fetches(texts)):
        return None
    if form := _FORMS.get((value.type.native_form(), value.type.size)):
        return _every(joined, len(keys), form, place)
    words, read = _every(joined, len(keys), "Q", place), word_decoder(value.type)
    known = {word: _plain(read(word)) for word in {*words}}
    return [*map(known.__getitem__, words)]


def _texts(
    keys: Sequence[bytes], start: int, lengths: Sequence[int], whole: Sequence[int]
) -> list[Any]:
    """Texts at ``start`` in the keys, that have ``lengths`` there, or `_CUT` if the ``whole`` is
    longer."""
    if not any(lengths):  # the names of threads have no length of their own
        chunks = [key[start : start + SMALL_CHUNK] for key in keys]
        lengths = whole = [len(chunk.split(b"\0", 1)[0]) for chunk in chunks]
    bare = [key[start : start + length] for key, length in zip(keys, lengths, strict=True)]
    made: list[Any] = b"\0".join(bare).decode("utf-8", "surrogateescape").split("\0")
    if len(made) != len(keys):  # as they may hold it themselves
        made = [text.decode("utf-8", "surrogateescape") for text in bare]
    if lengths != whole or max(lengths) > SMALL_CHUNK:
        for at, length in enumerate(lengths):
            made[at] = _CUT if length != whole[at] or length > SMALL_CHUNK else made[at]
    return made


_FIRST = 8
"""Where the words of a key begin."""

_FORMS = {
    ("signed", 1): "b",
    ("signed", 2): "h",
    ("signed", 4): "i",
    ("signed", 8): "q",
    ("unsigned", 1): "B",
    ("unsigned", 2): "H",
    ("unsigned", 4): "I",
    ("unsigned", 8): "Q",
}
"""Those of `struct` for integers (`lbtrace.values.base.Type.native_form`), by their size."""


def _decoder(grouping: Grouping) -> Callable[[Aggregate, int], Any]:
    """Return what decodes one of the values of a key."""
    texts = range(grouping.texts)
    made = Readers(_fetches(grouping.texts), Context())
    readers = [made.reader(value) for value in grouping.by]
    size = WORDS.size + SMALL_CHUNK * grouping.texts

    def decode(row: Aggregate, number: int) -> Any:
        if len(row.key) < size:  # damaged
            return _plain(UNDECODABLE)
        _, faults, *words = WORDS.unpack_from(row.key)
        pieces: dict[int, bytes | memoryview] = {}
        for slot in texts:
            start = WORDS.size + SMALL_CHUNK * slot
            text = row.key[start : start + SMALL_CHUNK]
            if not words[slot]:  # the name of a thread has no length of its own
                text = text.split(b"\0", 1)[0]
                words[slot] = len(text) << 32 | len(text)
            pieces[slot] = text[: words[slot] & UNKNOWN_LENGTH]
        return _plain(readers[number](Fetched(words, pieces, faults, row.pid)))

    return decode


def _fetches(texts: int) -> tuple[Fetch, ...]:
    """How the words of a key would be fetched, the first ``texts`` of which have texts."""
    return tuple(Fetch(read="string" if n < texts else "value") for n in range(KEY_WORDS))


_values: Callable[[Aggregate], tuple[Datum, ...]] = attrgetter("values")


def _plain(datum: Datum) -> Any:
    """As JSON has it."""
    if type(datum) is int:
        return datum
    found = json_of(datum)
    return str.__str__(found) if isinstance(found, str) else found  # names are more than text
