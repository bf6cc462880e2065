from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbtrace.model import (
    UNKNOWN,
    Address,
    Boolean,
    Char,
    Character,
    Integer,
    Opaque,
    Pointer,
    Unreadable,
    Void,
)
from lbtrace.values import decoder, text

SLOTS = st.integers(0, (1 << 64) - 1)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("signed", [True, False])
@given(raw=SLOTS)
def test_integers_are_what_c_makes_of_the_bits(raw, size, signed):
    kind = getattr(ctypes, f"c_{'' if signed else 'u'}int{8 * size}")
    assert decoder(Integer("t", size, signed))(raw) == kind(raw).value


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (4, "4"),
        ((1 << 64) - 1, "-1"),
        (2880067194370816120, "2880067194370816120"),  # fib(90)
        (0xFFFF_FFFF, "0xffffffff"),  # -1 of an int
        (0x7FFF_FFFF, "2147483647"),
        (0x5600_1234_5678, "0x560012345678"),
        (0x7FFC_0000_1234, "0x7ffc00001234"),
        (0xFFFF_A000_0000, "0xffffa0000000"),
    ],
)
def test_a_word_of_unknown_type_is_an_address_where_it_looks_like_one(raw, shown):
    assert text(decoder(UNKNOWN)(raw)) == shown


def test_the_rest_by_type():
    assert decoder(Boolean("bool", 1))(0xFF00) is False
    assert decoder(Boolean("bool", 1))(0xFF01) is True
    assert decoder(Character("char", 1, True))(0x4161) == Char("a")
    assert text(decoder(Character("char", 1, True))(0xC8)) == r"'\xc8'"
    assert type(decoder(Pointer("char *"))(0x7FFC_0000_1234)) is Address
    assert decoder(Void())(5) is None
    assert isinstance(decoder(Opaque("struct s"))(5), Unreadable)
    assert isinstance(decoder(Character("char32_t", 4, False))(0xFFFF_FFFF), Unreadable)


@pytest.mark.parametrize(
    ("datum", "words"),
    [
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
        (Char("a"), "'a'"),
        (Char("\n"), r"'\n'"),
        (Char("'"), r"'\''"),
        (Char("\x1b"), r"'\x1b'"),
        (Char("\u202e"), r"'\u202e'"),
        (Address(0x7FFC00001234), "0x7ffc00001234"),
        (Address(0), "0x0"),
        (Unreadable(), "?"),
        (Unreadable("float in xmm0"), "<float in xmm0>"),
        (None, "void"),
    ],
)
def test_text(datum, words):
    assert text(datum) == words
