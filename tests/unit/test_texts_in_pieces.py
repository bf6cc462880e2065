"""Arrays of characters that lie in a word, or in several pieces."""

from __future__ import annotations

import pytest

from lbtrace.abi.locations import Detail, Location
from lbtrace.calls.decoders import arguments
from lbtrace.model import Event, Fetch
from lbtrace.model.wire_limits import VALUES
from lbtrace.recognize.sharing import collected
from lbtrace.values.array import Array
from lbtrace.values.character import Character
from lbtrace.values.notation import text

CHAR = Character("char", 1, True)
DI, SI, DX = (Fetch(register=name) for name in ("di", "si", "dx"))
OUT = "optimised out"


def shown(type: Array, location: Location, *words: int) -> str:
    """What is shown of a value at a location, where the fetches get these words."""
    value, fetcher = collected(16, Detail(), lambda own: own.value("v", type, location))
    event = Event(*[0] * 10, *words, *[0] * (VALUES - len(words)))
    return text(arguments((value,), fetcher.fetches)(event, b"")[0].value)


def word(characters: bytes) -> int:
    return int.from_bytes(characters, "little")


@pytest.mark.parametrize("count", range(1, 9))
def test_a_text_in_a_word(count: int) -> None:
    # the bytes after the array are others
    raw = word(b"kcktqxyz"[:count]) | (0xCDCDCDCDCDCDCDCD << 8 * count) & (1 << 64) - 1
    type = Array("char[]", count, CHAR, count)
    assert shown(type, Location(words=(DI,)), raw) == f'"{"kcktqxyz"[:count]}"'


@pytest.mark.parametrize(
    ("words", "starts", "raw", "expected"),
    [
        ((DI, SI, DX), (0, 1, 2), (b"b", b"d", b"i"), '"bdi"'),
        ((DI, SI), (0, 2), (b"bdxx", b"ixxx"), '"bdi"'),
        ((DI, SI, DX), (0, 1, 2), (b"b", b"\0", b"i"), '"b"'),
        ((DI, SI, DX), (0, 1, 2), (b"b", b"\xff", b"i"), r'"b\xffi"'),
        ((DI, OUT, DX), (0, 1, 2), (b"b", b"i"), "['b', <optimised out>, 'i']"),
        ((DI, SI, OUT), (0, 1, 2), (b"b", b"d"), "['b', 'd', <optimised out>]"),
        ((DI, SI, OUT), (0, 1, 2), (b"b", b"\0"), '"b"'),
        ((OUT, OUT, OUT), (0, 1, 2), (), "<optimised out>"),
    ],
)
def test_a_text_in_pieces(words, starts, raw, expected) -> None:
    location = Location(words=words, starts=starts)
    assert shown(Array("char[3]", 3, CHAR, 3), location, *map(word, raw)) == expected
