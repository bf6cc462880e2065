"""How addresses of sockets are compared by the kernel: by the bytes with which they begin."""

from __future__ import annotations

import pytest

from lbtrace.expressions.socket_addresses import beginning
from lbtrace.expressions.tree import ExpressionError


def test_beginnings() -> None:
    local = bytes([2, 0, 0, 80, 127, 0, 0, 1])
    assert beginning(0, "==", b"127.0.0.1:80") == ("startswith", local)
    assert beginning(0, "!=", b"127.0.0.1:80") == ("lacks", local)
    assert beginning(0, "startswith", b"unix:/run/") == ("startswith", b"\1\0/run/")
    assert beginning(0, "startswith", b"unix:@bus") == ("startswith", b"\1\0\0bus")


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("==", b"unix:/run/bus"),  # a NUL may follow, or not
        ("==", b"[::1]:80"),
        ("==", b"127.0.0.1:65536"),
        ("==", b"127.0.0.256:80"),
        ("startswith", b"127.0.0.1:80"),
    ],
)
def test_what_is_not_compared(operator: str, text: bytes) -> None:
    with pytest.raises(ExpressionError):
        beginning(0, operator, text)
