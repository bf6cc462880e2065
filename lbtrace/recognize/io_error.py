"""``std::io::Error`` of Rust's library, as it is on machines of 64 bits
(``library/std/src/io/error/repr_bitpacked.rs``)."""

from __future__ import annotations

from lbtrace.abi.locations import WORD, Location, dereferenced, integer, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import UNSIGNED, Fetcher, KeptFetcher, pointer_in
from lbtrace.recognize.view import View, find_parts
from lbtrace.values import Type
from lbtrace.values.io_error import LED, TAGS, IoError


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`. What the word means it says by a type of no size, of which nothing
    is in it."""
    parts = [part.type for _, part in find_parts(view, 0, 2)] if view.size == WORD else []
    meant = [
        each for part in parts if part.name.startswith("PhantomData<") for each in part.arguments
    ]
    variants = meant[0].variants if len(meant) == 1 else None
    cases = {name: record for name, _, record in variants.cases} if variants else {}
    held = {name: [*record.members] for name, record in cases.items()}
    if set(held) != {*TAGS} or any(len(members) != 1 for members in held.values()):
        return None
    kind = held["Simple"][0].type
    targets = [held[name][0].type.target for name in LED]
    if kind.form != "enumeration":
        return None
    led = [inside.element(target) for target in targets if target and target.form == "record"]
    if len(led) < len(LED):
        return None
    return IoError(view.written, inside.part(kind), tuple(led))


class KindFetcher(KeptFetcher):
    """What is fetched: the word, and what lies where it leads if it is an address."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        word, into = place.word()
        if isinstance(word, str) or into:
            return Value(name, type.bare(), -1, place.why_unread(0))
        return _led(fetcher, name, type, word, pointer_in(word))

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        return _led(fetcher, name, type, integer(address, type), dereferenced(address))


def _led(fetcher: Fetcher, name: str, type: Type, word: Fetch, address: Fetch) -> Value:
    assert isinstance(type, IoError)
    whole = fetcher.take("", UNSIGNED, word)
    if whole.slot < 0:
        return Value(name, type.bare(), -1, whole.reason)
    with fetcher.as_optional():
        led = [
            fetcher.in_memory("", record, moved(address, -tag), 0)
            for tag, record in enumerate(type.led)
        ]
    return Value(name, type.bare(), whole.slot, members=(whole, *led))
