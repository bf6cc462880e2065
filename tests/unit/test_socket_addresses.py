"""How addresses of sockets are compared by the kernel: by their bytes."""

from __future__ import annotations

from typing import cast

import pytest

from lbtrace.expressions.socket_addresses import compare
from lbtrace.expressions.tree import ExpressionError, Operator
from lbtrace.model import Fetch

Tests = list[list[tuple[int, str, bytes]]]

ONE = bytes(15) + b"\1"


def compared(operator: str, text: bytes) -> Tests:
    groups = compare(0, cast(Operator, operator), text, Fetch(register="si"), 3, lambda fetch: 4)
    return [[(each.slot, each.operator, each.text) for each in group] for group in groups]


@pytest.mark.parametrize(
    ("operator", "text", "tests"),
    [
        ("==", b"127.0.0.1:80", [[(3, "startswith", b"\2\0\0\x50\x7f\0\0\1")]]),
        ("!=", b"127.0.0.1:80", [[(3, "lacks", b"\2\0\0\x50\x7f\0\0\1")]]),
        (
            "==",
            b"[::1]:80",
            [[(3, "startswith", b"\n\0\0\x50")], [(4, "startswith", ONE + bytes(4))]],
        ),
        (
            "!=",
            b"[::1%2]:80",
            [[(3, "lacks", b"\n\0\0\x50"), (4, "lacks", ONE + b"\2\0\0\0")]],
        ),
        ("==", b"unix:/bus", [[(3, "==", b"\1\0/bus"), (3, "startswith", b"\1\0/bus\0")]]),
        ("!=", b"unix:/bus", [[(3, "!=", b"\1\0/bus")], [(3, "lacks", b"\1\0/bus\0")]]),
        ("==", b"unix:@bus", [[(3, "==", b"\1\0\0bus")]]),
        ("startswith", b"unix:/run/", [[(3, "startswith", b"\1\0/run/")]]),
        ("lacks", b"unix:@bus", [[(3, "lacks", b"\1\0\0bus")]]),
    ],
)
def test_bytes(operator: str, text: bytes, tests: Tests) -> None:
    assert compared(operator, text) == tests


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("==", b"localhost:80"),
        ("==", b"[::1]:65536"),
        ("==", b"[::x]:80"),
        ("==", b"127.0.0.1:65536"),
        ("==", b"127.0.0.256:80"),
        ("startswith", b"127.0.0.1:80"),
        ("==", b"unix:/" + 61 * b"x"),
    ],
)
def test_what_is_not_compared(operator: str, text: bytes) -> None:
    with pytest.raises(ExpressionError):
        compared(operator, text)
